// Package fsck reads a log's stores and tells everything that is wrong with
// them. [Run] checks all once, from a storage directory or through a monitoring
// prefix; a [Scrubber] does it slowly and without end, inside a running log;
// [Rebuild] makes the dedup cache anew from the data tiles.
//
// Nothing but Rebuild changes anything, and that only the cache. The checks of
// tiles are those of package monitor.
//
// What is found is exact: an object is named when it is wrong, not when another
// object says so. Where a hash tile and what it stands for contradict each
// other, the level above, which is verified up to the signed root, tells which of
// them is right. What is not found is a change of bytes that leaves the content
// as it was, such as of the time in a gzip header.
package fsck

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/daybook-ct/daybook/monitor"
)

// Finding is something wrong with one object. The same reason found for several
// entries, or rows, of an object is one finding.
type Finding struct {
	// Object is the name of an object of the store, LockObject or CacheObject.
	Object string `json:"object"`
	Entry  int64  `json:"entry"` // leaf index of the first entry concerned, -1 for none
	What   string `json:"what"`
	Got    string `json:"got,omitempty"` // of the first
	Want   string `json:"want,omitempty"`
	Count  int64  `json:"count"` // entries or rows concerned; 0 if it is about the object as a whole
}

// The objects of findings that are not in the store.
const (
	LockObject  = "lock"
	CacheObject = "cache"
)

func (f Finding) String() string {
	m := monitor.Fault{Object: f.Object, Entry: f.Entry, What: f.What, Got: f.Got, Want: f.Want}
	s := m.Error()
	if f.Count > 1 {
		s += fmt.Sprintf(" (and %d more like this)", f.Count-1)
	}
	return s
}

func finding(f *monitor.Fault) Finding {
	n := Finding{Object: f.Object, Entry: f.Entry, What: f.What, Got: f.Got, Want: f.Want}
	if f.Entry >= 0 {
		n.Count = 1
	}
	if errors.Is(f, monitor.ErrNotFound) {
		n.What = strings.Replace(f.What, monitor.ErrNotFound.Error(), "is missing", 1)
	}
	return n
}

// reason is what makes findings one.
type reason struct{ object, what string }

// findings collects findings without repeating any. It is safe for concurrent
// use.
type findings struct {
	most int           // that are kept
	told func(Finding) // of each new one, with mu held; may be nil

	mu   sync.Mutex
	list []Finding      // in the order in which they were found
	at   map[reason]int // index in list
	more int64          // found when the list was full
}

// mostFindings bounds the findings of a run that are kept, at some 300 bytes
// each. Beyond, they are counted, and a repeated one counts again.
const mostFindings = 100_000

func newFindings(told func(Finding)) *findings {
	return &findings{most: mostFindings, told: told, at: map[reason]int{}}
}

// add adds a finding, or adds to the one that is there.
func (s *findings) add(f Finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := reason{f.Object, f.What}
	if i, ok := s.at[r]; ok {
		old := &s.list[i]
		old.Count += f.Count
		if f.Entry >= 0 && (old.Entry < 0 || f.Entry < old.Entry) {
			old.Entry, old.Got, old.Want = f.Entry, f.Got, f.Want
		}
		return
	}
	if len(s.list) >= s.most {
		s.more++
		return
	}
	s.at[r] = len(s.list)
	s.list = append(s.list, f)
	if s.told != nil {
		s.told(f)
	}
}

// fault is a [monitor.Found] that goes on.
func (s *findings) fault(f *monitor.Fault) error {
	s.add(finding(f))
	return nil
}

// hasPrefix tells whether there is a finding about an object whose reason begins
// like this.
func (s *findings) hasPrefix(object, prefix string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.list, func(f Finding) bool { return f.Object == object && strings.HasPrefix(f.What, prefix) })
}

// count returns the number of findings.
func (s *findings) count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.list)) + s.more
}

// all returns the findings that were kept.
func (s *findings) all() []Finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// sorted returns findings by object, and by entry within it.
func sorted(list []Finding) []Finding {
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.What, b.What))
	})
	return list
}
