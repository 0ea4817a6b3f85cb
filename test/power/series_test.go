package power

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/test/power/disk"
	"github.com/daybook-ct/daybook/test/program"
)

// connections over which the users submit, so about the entries of a round.
const connections = 64

// series is a number of cuts of one kind, and its counts.
type series struct {
	rand    *rand.Rand
	program *program.Build
	env     []string // of the program
	perLog  int      // cuts before a log starts anew, to stay small
	// harmless is a series in which nothing may be lost: every fault fails the
	// test.
	harmless bool

	n counts
}

// run makes so many cuts of machines, and several of copies before each.
func (s *series) run(t *testing.T, cuts, copies int) {
	s.start()
	for s.n.cuts < cuts && !t.Failed() {
		s.n.logs++
		d, id := create(t)
		u := newUsers(t, id, rand.New(rand.NewPCG(s.rand.Uint64(), s.rand.Uint64())))
		for i := 0; d != nil && i < s.perLog && s.n.cuts < cuts; i++ {
			d = s.life(t, d, u, copies)
		}
		if d != nil {
			s.last(t, d, u)
		}
		s.users(u)
		t.Logf("%d cuts and %d copies so far: %d promises checked, %d lost", s.n.cuts, s.n.copies, s.n.checked, s.n.lostPromises)
	}
}

func (s *series) start() {
	if s.n.policies == nil {
		s.n.refused, s.n.unusable, s.n.policies = map[string]int{}, map[string]int{}, map[disk.Policy]int{}
	}
}

// users adds the counts of a log's users.
func (s *series) users(u *users) {
	n := u.Counts()
	s.n.promised += n.Promised
	s.n.moved += n.Moved
	s.n.repeated += n.Repeated
	s.n.checkpoints += n.Trees
}

// life is one life of a machine, from its start to a cut. It returns the disk
// as the cut has left it, nil if the log cannot go on from it.
func (s *series) life(t *testing.T, d *disk.Disk, u *users, copies int) *disk.Disk {
	t.Helper()
	m := boot(t, d, s.program.Path(t))
	m.start(t, s.env)
	if s.rand.IntN(6) == 0 && u.count() > 0 {
		s.n.opening++
		time.Sleep(time.Duration(s.rand.IntN(1500)) * time.Millisecond)
		return s.cut(t, m, u, func() {})
	}
	s.opened(t, m, u)
	stop := u.load(t, m.addr, connections)
	grows(t, m, u)
	for range copies {
		s.pause(m, 1200)
		known := u.fork(t, s.rand) // what is promised before the copy is taken must be in it
		kept, loss := d.Cut(s.policy(), s.rand)
		s.n.copies++
		s.note(loss)
		s.examine(t, kept, known)
	}
	s.pause(m, 2500)
	return s.cut(t, m, u, stop)
}

// pause waits for the time of a cut, at random. Every second time it waits on
// until there is something to lose.
func (s *series) pause(m *machine, most int) {
	time.Sleep(time.Duration(s.rand.IntN(most)) * time.Millisecond)
	if wait := s.rand.IntN(2) == 0; wait {
		for deadline := time.Now().Add(time.Second); m.disk.Pending() == 0 && time.Now().Before(deadline); {
			time.Sleep(100 * time.Microsecond)
		}
	}
}

// policy chooses what the next cut keeps.
func (s *series) policy() disk.Policy {
	p := disk.Policies()[s.rand.IntN(len(disk.Policies()))]
	s.n.policies[p]++
	return p
}

func (s *series) note(l disk.Loss) {
	s.n.pending += int64(l.Pending)
	s.n.sectors += int64(l.Sectors)
	s.n.lost += int64(l.Lost)
}

// cut cuts the power of a machine, and looks at what is left. stop ends its
// load: its address may be another's soon.
func (s *series) cut(t *testing.T, m *machine, u *users, stop func()) *disk.Disk {
	t.Helper()
	m.cut(t)
	stop()
	s.n.cuts++
	kept, loss := m.disk.Cut(s.policy(), s.rand)
	s.note(loss)
	if !s.examine(t, kept, u.fork(t, s.rand)) {
		return nil
	}
	return kept
}

// opened waits until the log has recovered on the machine, and verifies it.
func (s *series) opened(t *testing.T, m *machine, u *users) {
	t.Helper()
	m.serves(t, 1)
	if line, _ := m.Out.Wait(`"msg":"log opened"`); strings.Contains(line, `"finished_round":true`) {
		s.n.finished++
	}
	if err := u.verify(t.Context(), m.addr, false); err != nil {
		t.Fatalf("after the start of the machine: %v\n%s", err, m.Out.Text())
	}
	u.Resubmit(t.Context(), m.addr, 20)
	if err := u.Err(); err != nil {
		_, _ = m.ask("quit", nil, nil) // has it say what it is doing
		t.Fatalf("after the start of the machine: %v\n%s", err, m.Out.Text())
	}
}

// grows waits until something new is promised.
func grows(t *testing.T, m *machine, u *users) {
	t.Helper()
	before := u.count()
	for deadline := time.Now().Add(patience); u.count() == before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nothing is promised any more\n%s", m.Out.Text())
		}
	}
}

// last starts a log for the last time, verifies all of it, and has it checked
// by the program where it is.
func (s *series) last(t *testing.T, d *disk.Disk, u *users) {
	t.Helper()
	m := boot(t, d, s.program.Path(t))
	m.start(t, s.env)
	s.opened(t, m, u)
	if err := u.verify(t.Context(), m.addr, true); err != nil {
		t.Fatal(err)
	}
	size := u.Last().Tree.N
	s.n.entries += size
	s.n.twice += size - int64(u.count())
	if a := m.must(t, "run", append([]string{"fsck", "-c", "daybook.yaml"}, fsckFlags...), nil); a.Code != 0 && !s.harmlessFindings(a.Output) {
		t.Fatalf("daybook fsck on the machine: exit code %d\n%s", a.Code, a.Output)
	}
	m.off(t)
	dir, files := extract(t, d)
	defer func() { _ = os.RemoveAll(dir) }()
	if temps, bundles := leftovers(t, files); len(temps)+len(bundles) > 0 {
		t.Errorf("left after an orderly end: %v %v", temps, bundles)
	}
}

// fail fails the test if nothing may be lost.
func (s *series) fail(t *testing.T, format string, args ...any) {
	t.Helper()
	if s.harmless {
		t.Errorf(format, args...)
	} else {
		t.Logf(format, args...)
	}
}

// examine recovers a log from a disk as a cut has left it, on this machine, and
// holds it to all that its users know. It reports whether the log can go on.
func (s *series) examine(t *testing.T, d *disk.Disk, u *users) bool {
	t.Helper()
	dir, files := extract(t, d)
	defer func() { _ = os.RemoveAll(dir) }()
	promises := u.Promises()
	s.n.checked += len(promises)
	temps, bundles := leftovers(t, files)
	s.n.temps, s.n.bundles = s.n.temps+len(temps), s.n.bundles+len(bundles)
	state := inspectCache(t, files, promises)
	s.n.cacheWrong += state.wrong
	if state.damaged != nil {
		s.n.cacheDamaged++
		s.fail(t, "the dedup cache is damaged: %v", state.damaged)
	}
	if state.wrong > 0 {
		s.fail(t, "the dedup cache has %d wrong rows", state.wrong)
	}
	p := startHere(t, s.program.Path(t), files)
	defer p.kill()
	if !p.serves(t) {
		lost := len(promises) - kept(t, files, promises)
		s.lose(t, lost)
		s.n.refused[cause(p.Out.Text())]++
		s.fail(t, "the log does not start, %d of %d promises are lost:\n%s", lost, len(promises), p.Out.Text())
		return false
	}
	s.n.recovered++
	if strings.Contains(p.Out.Text(), `"finished_round":true`) {
		s.n.hostFinished++
	}
	if err := errors.Join(u.verify(t.Context(), p.Addr, false), u.notServed(t.Context(), p.Addr, append(temps, bundles...))); err != nil {
		s.n.faulty++
		s.lose(t, len(promises)-kept(t, files, promises))
		s.fail(t, "%v\n%s", err, p.Out.Text())
		return false
	}
	return s.usable(t, p, u, files)
}

func (s *series) lose(t *testing.T, lost int) {
	t.Helper()
	if s.n.lostPromises += lost; lost > 0 {
		s.n.lostIn++
		s.fail(t, "%d promises are lost", lost)
	}
}

// usable submits to a recovered log, ends it, and has its files checked.
func (s *series) usable(t *testing.T, p *process, u *users, files string) (ok bool) {
	t.Helper()
	moved := u.Counts().Moved
	u.Resubmit(t.Context(), p.Addr, 50)
	s.n.hostMoved += u.Counts().Moved - moved
	if err := u.Err(); err != nil {
		s.n.unusable[known(err.Error(), "status 500")]++
		s.fail(t, "%v\n%s", err, p.Out.Text())
		return false
	}
	if err := u.verify(t.Context(), p.Addr, false); err != nil {
		s.fail(t, "after submissions: %v\n%s", err, p.Out.Text())
		return false
	}
	p.stop(t)
	if temps, bundles := leftovers(t, files); len(temps)+len(bundles) > 0 {
		s.fail(t, "left after an orderly end: %v %v", temps, bundles)
	}
	out, err := exec.Command(s.program.Path(t), append([]string{"fsck", "-c", filepath.Join(files, "daybook.yaml")}, fsckFlags...)...).CombinedOutput()
	if err != nil && !s.harmlessFindings(string(out)) {
		s.n.fsck++
		s.fail(t, "daybook fsck: %v\n%s", err, out)
		return false
	}
	return true
}

var fsckFlags = []string{"--all", "--print", "1000000"}

// harmlessFindings reports whether daybook fsck has found nothing but that the
// cache has lost rows, which it may (S8).
func (s *series) harmlessFindings(out string) bool {
	_, rest, _ := strings.Cut(out, "\nfound ")
	found, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.Atoi(strings.ReplaceAll(found, ",", ""))
	if err != nil || n != strings.Count(out, "has no row of entries: if they come again, they are logged again") {
		return false
	}
	s.n.fsckForgotten++
	return true
}

// cause returns why a log did not start, without what differs from one time to
// the next.
func cause(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return known(lines[len(lines)-1], "was the storage restored from a backup?", "was the lock restored from a backup?", "verifying the right edge of the tree",
		"malformed staging bundle", "database disk image is malformed: move the file away", "not a dedup cache", "is this the right storage?", "is not this log's",
		"disk I/O error")
}

// known returns the first of some texts that a message has, or the message.
func known(message string, texts ...string) string {
	for _, text := range texts {
		if strings.Contains(message, text) {
			return text
		}
	}
	return message
}

// process is a daybook serve on this machine.
type process struct{ *program.Process }

func startHere(t testing.TB, binary, dir string) *process {
	t.Helper()
	out := program.NewOutput(patience)
	cmd := exec.Command(binary, "serve", "-c", filepath.Join(dir, "daybook.yaml"))
	cmd.Stderr = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p, err := program.Start(cmd, out)
	if err != nil {
		t.Fatal(err)
	}
	return &process{p}
}

// serves waits until the process serves, or ends.
func (p *process) serves(t testing.TB) bool {
	t.Helper()
	ok, err := p.Ready()
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func (p *process) kill() {
	_ = p.Cmd.Process.Kill() // it may have ended
	<-p.Done
}

func (p *process) stop(t testing.TB) {
	t.Helper()
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
}
