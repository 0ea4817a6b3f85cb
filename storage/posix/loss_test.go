package posix

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/internal/durable/durabletest"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/storagetest"
)

// onDisk opens a store on a disk that can lose power.
func onDisk(tb testing.TB, disk durable.FS) *Store {
	tb.Helper()
	s, err := newStore("disk", disk, nil, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// TestContractOnDisk runs the contract on the disk of the tests below.
func TestContractOnDisk(t *testing.T) {
	storagetest.TestStore(t, func(tb testing.TB) storage.Store { return onDisk(tb, durabletest.NewDisk()) })
	storagetest.TestStoreReopen(t, func(tb testing.TB) func() storage.Store {
		disk := durabletest.NewDisk()
		opened := false
		return func() storage.Store {
			if opened {
				disk = disk.PowerLoss(nil) // whatever was not durable is gone
			}
			opened = true
			return onDisk(tb, disk)
		}
	})
}

// round returns the objects of the nth round of a small log.
func round(n int) []storage.Object {
	data := func(s string) []byte { return bytes.Repeat(fmt.Appendf(nil, "%s %d ", s, n), 100) }
	return []storage.Object{
		{Name: fmt.Sprintf("tile/0/000.p/%d", n), Data: data("hashes")},
		{Name: fmt.Sprintf("tile/data/000.p/%d", n), Data: data("data")},
		{Name: fmt.Sprintf("tile/names/000.p/%d", n), Data: data("names")},
		{Name: fmt.Sprintf("issuer/%064x", n), Data: data("issuer")},
	}
}

func bundle(n int) storage.Object {
	return storage.Object{Name: fmt.Sprintf("staging/%d-%064x", n, n), Data: bytes.Repeat([]byte{byte(n)}, 500)}
}

// TestPowerLossInRounds cuts the power at each operation of two rounds: stage,
// apply, publish, discard. Whatever was reported as stored is there (S2), no
// object is half there, and the rounds can be played again on what is left.
func TestPowerLossInRounds(t *testing.T) {
	powerLossInRounds(t, func(s *Store) (reported map[string][]byte, err error) {
		reported = make(map[string][]byte)
		put := func(objects ...storage.Object) error {
			if err := s.Put(t.Context(), objects...); err != nil {
				return err
			}
			for _, o := range objects {
				reported[o.Name] = o.Data
			}
			return nil
		}
		for n := 1; n <= 2; n++ {
			delete(reported, "checkpoint") // old or new, checked below
			if err := errors.Join(put(bundle(n)), put(round(n)...), put(storage.Object{Name: "checkpoint", Data: fmt.Appendf(nil, "checkpoint %d", n)})); err != nil {
				return reported, err
			}
			delete(reported, bundle(n).Name)
			if err := s.Delete(t.Context(), bundle(n).Name); err != nil {
				return reported, err
			}
		}
		return reported, nil
	})
}

// TestPowerLossInShownRounds does the same to rounds that are shown, and made
// durable together before their bundles go.
func TestPowerLossInShownRounds(t *testing.T) {
	powerLossInRounds(t, func(s *Store) (reported map[string][]byte, err error) {
		reported = make(map[string][]byte)
		for n := 1; n <= 2; n++ {
			if err := s.Put(t.Context(), bundle(n)); err != nil {
				return reported, err
			}
			reported[bundle(n).Name] = bundle(n).Data
			if err := errors.Join(s.Show(t.Context(), round(n)...),
				s.Show(t.Context(), storage.Object{Name: "checkpoint", Data: fmt.Appendf(nil, "checkpoint %d", n)})); err != nil {
				return reported, err
			}
		}
		if err := s.Sync(t.Context()); err != nil {
			return reported, err
		}
		reported["checkpoint"] = []byte("checkpoint 2")
		for n := 1; n <= 2; n++ {
			for _, o := range round(n) {
				reported[o.Name] = o.Data
			}
			delete(reported, bundle(n).Name)
		}
		return reported, s.Delete(t.Context(), bundle(1).Name, bundle(2).Name)
	})
}

// powerLossInRounds plays rounds that end in a cut at each of their operations.
// play returns what the store has reported as durable, and not removed.
func powerLossInRounds(t *testing.T, play func(s *Store) (reported map[string][]byte, err error)) {
	all := map[string][][]byte{"checkpoint": {[]byte("checkpoint 1"), []byte("checkpoint 2")}}
	for n := 1; n <= 2; n++ {
		for _, o := range append(round(n), bundle(n)) {
			all[o.Name] = [][]byte{o.Data}
		}
	}

	r := rand.New(rand.NewPCG(3, 4))
	for cut := 0; ; cut++ {
		disk := durabletest.NewDisk()
		var mu sync.Mutex
		ops := 0
		s, err := newStore("disk", durable.Hook(disk, durable.Hooks{Before: func(durable.Call) error {
			mu.Lock()
			defer mu.Unlock()
			if ops++; ops > cut {
				return durabletest.ErrPower
			}
			return nil
		}}), nil, Options{})
		if err != nil {
			continue // cut while opening
		}
		reported, err := play(s)
		left := disk.PowerLoss(r)
		files := left.Files()
		for name, data := range reported {
			if !bytes.Equal(files[name], data) {
				t.Errorf("cut at %d: %s was reported as stored and is %.30q", cut, name, files[name])
			}
		}
		for name, data := range files {
			whole := durable.IsTemp(name)
			for _, version := range all[name] {
				whole = whole || bytes.Equal(data, version)
			}
			if !whole {
				t.Errorf("cut at %d: %s is half there: %.30q", cut, name, data)
			}
		}
		again, playErr := play(onDisk(t, left))
		if playErr != nil {
			t.Fatalf("cut at %d: playing again: %v", cut, playErr)
		}
		files = left.PowerLoss(nil).Files()
		if len(files) != len(again) {
			t.Errorf("cut at %d: %d files after playing again, want %d", cut, len(files), len(again))
		}
		if err == nil {
			t.Logf("cut at each of %d operations", cut)
			return
		}
	}
}

// TestPutAfterFailedSync: a new process stores the same objects again, and
// they are durable although the old one met a failing disk.
func TestPutAfterFailedSync(t *testing.T) {
	disk := durabletest.NewDisk()
	s := onDisk(t, disk)
	disk.FailSyncs(func(name string) bool { return name == "tile/0/000.p" })
	if err := s.Put(t.Context(), round(1)...); !errors.Is(err, storage.ErrNotDurable) {
		t.Fatalf("put: %v, want ErrNotDurable", err)
	}
	disk.FailSyncs(nil)
	for what, err := range map[string]error{"put": s.Put(t.Context(), round(1)...), "delete": s.Delete(t.Context(), "checkpoint")} {
		if !errors.Is(err, storage.ErrNotDurable) {
			t.Errorf("%s by the same process: %v, want ErrNotDurable", what, err)
		}
	}
	if _, err := s.Get(t.Context(), "checkpoint"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("get by the same process: %v", err)
	}
	if err := onDisk(t, disk).Put(t.Context(), round(1)...); err != nil {
		t.Fatal(err)
	}
	files := disk.PowerLoss(nil).Files()
	for _, o := range round(1) {
		if !bytes.Equal(files[o.Name], o.Data) {
			t.Errorf("%s is %.30q after a power loss", o.Name, files[o.Name])
		}
	}
}

// TestFailuresAreNotAbsence makes each kind of operation fail in each of the
// ways a disk can.
func TestFailuresAreNotAbsence(t *testing.T) {
	for _, failure := range []error{errors.New("input/output error"), fs.ErrPermission, errors.New("not a directory"), errors.New("too many open files")} {
		failing := false
		s := onDisk(t, durable.Hook(durabletest.NewDisk(), durable.Hooks{Before: func(c durable.Call) error {
			if failing {
				return &fs.PathError{Op: string(c.Op), Path: c.Name, Err: failure}
			}
			return nil
		}}))
		if err := s.Put(t.Context(), bundle(1)); err != nil {
			t.Fatal(err)
		}
		failing = true
		_, absentErr := s.Get(t.Context(), "tile/0/000")
		_, getErr := s.Get(t.Context(), bundle(1).Name)
		_, listErr := s.List(t.Context(), "staging/")
		for what, err := range map[string]error{"get": getErr, "get of an absent object": absentErr, "list": listErr,
			"put": s.Put(t.Context(), bundle(1)), "delete": s.Delete(t.Context(), bundle(1).Name)} {
			if !errors.Is(err, failure) || errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrChanged) {
				t.Errorf("%s with %v: got %v", what, failure, err)
			}
		}
	}
}
