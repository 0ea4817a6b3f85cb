package rounds

import (
	"sync"
	"time"
)

// Bounds of the records in memory: an hour, and some 15 MB.
const (
	memoryAge   = time.Hour
	memoryCount = 36_000
)

// memory keeps the latest records, up to a number and an age. It is safe for
// concurrent use.
type memory struct {
	mu   sync.Mutex
	max  int
	ring []Record // grows up to max
	next int      // where the next record goes, once the ring has grown
}

// newMemory returns a memory for an hour of rounds.
func newMemory(interval time.Duration) *memory {
	n := memoryCount
	if interval > 0 {
		n = min(n, int(memoryAge/interval)+1)
	}
	return &memory{max: max(n, 1)}
}

func (m *memory) add(r Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.ring) < m.max {
		m.ring = append(m.ring, r)
		return
	}
	m.ring[m.next] = r
	m.next = (m.next + 1) % m.max
}

// since returns the records of rounds that began at t or later, in their order.
func (m *memory) since(t time.Time) []Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Record
	for i := range m.ring {
		if r := &m.ring[(m.next+i)%len(m.ring)]; !r.Time.Before(t) {
			if out == nil {
				out = make([]Record, 0, len(m.ring)-i)
			}
			out = append(out, *r)
		}
	}
	return out
}

// points returns what a capacity is judged by: the rounds that went well of the
// last hour.
func (m *memory) points(since time.Time) []Point {
	m.mu.Lock()
	defer m.mu.Unlock()
	points := make([]Point, 0, len(m.ring))
	for i := range m.ring {
		if r := &m.ring[i]; r.Outcome == outcomeOK && !r.Time.Before(since) {
			points = append(points, Point{r.Entries, time.Duration(r.Took)})
		}
	}
	return points
}
