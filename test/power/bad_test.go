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

// onImage runs a command on an image of the disk as it is now.
func onImage(t testing.TB, d *disk.Disk, command ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp(work, "blocks-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	whole, _ := d.Cut(disk.All, rand.New(rand.NewPCG(0, 0)))
	image := imageOf(t, whole, dir)
	mend(t, image)
	return run1(t, command[0], append(command[1:], image)...)
}

// blocksOf returns the blocks of the disk in which a file stands.
func blocksOf(t testing.TB, d *disk.Disk, name string) (blocks []int64) {
	t.Helper()
	for _, n := range strings.Fields(onImage(t, d, "debugfs", "-R", "blocks /"+name)) {
		if block, err := strconv.ParseInt(n, 10, 64); err == nil { // the first line is debugfs's name
			blocks = append(blocks, block)
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no blocks", name)
	}
	return blocks
}

// freeBlocks returns the blocks in which new files will stand.
func freeBlocks(t testing.TB, d *disk.Disk) (blocks []int64) {
	t.Helper()
	for line := range strings.Lines(onImage(t, d, "dumpe2fs")) {
		list, ok := strings.CutPrefix(strings.TrimSpace(line), "Free blocks: ")
		if !ok {
			continue
		}
		for area := range strings.SplitSeq(list, ", ") {
			first, last, several := strings.Cut(area, "-")
			if !several {
				last = first
			}
			from, err := strconv.ParseInt(first, 10, 64)
			to, lastErr := strconv.ParseInt(last, 10, 64)
			if err != nil || lastErr != nil {
				continue // the first such line has their number
			}
			for n := from; n <= to; n++ {
				blocks = append(blocks, n)
			}
		}
	}
	if len(blocks) < 1000 {
		t.Fatalf("%d blocks are free", len(blocks))
	}
	return blocks
}

// TestLockWriteFails has the disk refuse what is written to the lock for a
// while. The fsync fails and the log halts; but the machine goes on, and what
// the disk has refused stands in its page cache, clean, as if it were on disk. A
// log that is started again then must not build on it.
func TestLockWriteFails(t *testing.T) {
	needMachine(t)
	s := &series{rand: newRand(t.Name()), program: normal, harmless: true}
	for i := range max(1, *unsound/3) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			s.refuse(t, func(d *disk.Disk) []int64 { return blocksOf(t, d, "lock.db-wal") }, `"msg":"log has halted`)
		})
	}
	t.Logf("lock that could not be written:\n%s", s.n.table())
}

// TestCacheWriteFails is the same with the dedup cache, which may lose keys.
func TestCacheWriteFails(t *testing.T) {
	needMachine(t)
	s := &series{rand: newRand(t.Name()), program: normal, harmless: true}
	for i := range max(1, *unsound/3) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			s.refuse(t, func(d *disk.Disk) []int64 { return blocksOf(t, d, "cache.db-wal") }, `"msg":"dedup cache put failed`)
		})
	}
	t.Logf("dedup cache that could not be written:\n%s", s.n.table())
}

// TestStorageWriteFails is the same with new files. Whichever fsync fails first,
// in stage, apply or publish, the log halts.
func TestStorageWriteFails(t *testing.T) {
	needMachine(t)
	s := &series{rand: newRand(t.Name()), program: normal, harmless: true}
	for i := range max(1, *unsound/3) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			s.refuse(t, func(d *disk.Disk) []int64 { return freeBlocks(t, d) }, `"msg":"log has halted`)
		})
	}
	t.Logf("storage that could not be written:\n%s", s.n.table())
}

// refuse lets a log run on a disk that refuses writes to some blocks until the
// log says so, starts it again on the same machine, and cuts the power of that.
func (s *series) refuse(t *testing.T, blocks func(*disk.Disk) []int64, says string) {
	s.start()
	s.n.logs++
	d, id := create(t)
	u := newUsers(t, id, rand.New(rand.NewPCG(s.rand.Uint64(), s.rand.Uint64())))
	m := boot(t, d, s.program.Path(t))
	m.start(t, nil)
	s.opened(t, m, u)
	stop := u.load(t, m.addr, connections)
	grows(t, m, u)
	for len(blocksOf(t, d, "lock.db-wal")) < 64 { // until SQLite uses it anew
		time.Sleep(500 * time.Millisecond)
	}
	time.Sleep(time.Duration(s.rand.IntN(5000)) * time.Millisecond) // any place of it
	d.SetBad(blocks(d))
	if line, ok := m.Out.Wait(says); !ok {
		t.Fatalf("it does not say %s:\n%s", says, m.Out.Text())
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
		known := u.fork(t, s.rand)
		kept, loss := d.Cut(s.policy(), s.rand)
		s.n.copies++
		s.note(loss)
		s.examine(t, kept, known)
	}
	s.cut(t, m, u, stop)
	s.users(u)
}
