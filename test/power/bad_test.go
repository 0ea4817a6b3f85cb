package power

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/test/power/disk"
)

// blocksOf returns the blocks of the disk in which a file stands.
func blocksOf(t testing.TB, d *disk.Disk, name string) (blocks []int64) {
	t.Helper()
	dir, err := os.MkdirTemp(work, "blocks-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	whole, _ := d.Cut(disk.All, rand.New(rand.NewPCG(0, 0)))
	image := imageOf(t, whole, dir)
	mend(t, image)
	for _, n := range strings.Fields(run1(t, "debugfs", "-R", "blocks /"+name, image)) {
		if block, err := strconv.ParseInt(n, 10, 64); err == nil { // the first line is debugfs's name
			blocks = append(blocks, block)
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no blocks", name)
	}
	return blocks
}

// TestLockWriteFails has the disk refuse what is written to the lock for a
// while. The fsync fails and the log halts; but the machine goes on, and what
// the disk has refused stands in its page cache, clean, as if it were on disk. A
// log that is started again then must not build on it.
func TestLockWriteFails(t *testing.T) {
	needMachine(t)
	s := &series{rand: newRand(t.Name()), program: &normal, harmless: true}
	for i := range max(1, *unsound/3) {
		t.Run(fmt.Sprint(i), func(t *testing.T) { s.refuse(t, "lock.db-wal", `"msg":"log has halted`) })
	}
	t.Logf("lock that could not be written:\n%s", s.n.table())
}

// TestCacheWriteFails is the same with the dedup cache, which may lose keys.
func TestCacheWriteFails(t *testing.T) {
	needMachine(t)
	s := &series{rand: newRand(t.Name()), program: &normal, harmless: true}
	for i := range max(1, *unsound/3) {
		t.Run(fmt.Sprint(i), func(t *testing.T) { s.refuse(t, "cache.db-wal", `"msg":"dedup cache put failed`) })
	}
	t.Logf("dedup cache that could not be written:\n%s", s.n.table())
}

// refuse lets a log run on a disk that refuses writes to a file until the log
// says so, starts it again on the same machine, and cuts the power of that.
func (s *series) refuse(t *testing.T, name, says string) {
	s.start()
	s.n.logs++
	d, id := create(t)
	u := newUsers(t, id, rand.New(rand.NewPCG(s.rand.Uint64(), s.rand.Uint64())))
	m := boot(t, d, s.program.binary(t))
	m.start(t, nil)
	s.opened(t, m, u)
	stop := u.load(t, m.addr, connections)
	grows(t, m, u)
	for len(blocksOf(t, d, "lock.db-wal")) < 64 { // until SQLite uses it anew
		time.Sleep(500 * time.Millisecond)
	}
	time.Sleep(time.Duration(s.rand.IntN(5000)) * time.Millisecond) // any place of it
	d.SetBad(blocksOf(t, d, name))
	if line, ok := m.console.wait(says); !ok {
		t.Fatalf("it does not say %s:\n%s", says, m.console.text())
	} else {
		t.Logf("%.400s", line)
	}
	stop()
	d.SetBad(nil)
	if d.Stats().Failed == 0 {
		t.Error("the disk refused nothing")
	}
	m.must(t, "kill", nil, nil)
	m.start(t, nil)
	m.serves(t, 2)
	stop = u.load(t, m.addr, connections)
	grows(t, m, u)
	for range 2 * *images { // soon, while the WAL goes on from where it was
		s.pause(m, 300)
		known := u.fork(t)
		kept, loss := d.Cut(s.policy(), s.rand)
		s.n.copies++
		s.note(loss)
		s.examine(t, kept, known)
	}
	s.cut(t, m, u, stop)
	s.users(u)
}
