package power

import "testing"

// TestPowerCuts cuts the power of a log under load, and of one that recovers,
// and holds it to its promises after each cut.
func TestPowerCuts(t *testing.T) {
	needMachine(t)
	s := &series{rand: newRand(t.Name()), program: normal, perLog: 12, harmless: true}
	s.run(t, *cuts, *images)
	t.Logf("sound log:\n%s", s.n.table())
	switch {
	case t.Failed():
	case s.n.lost == 0 || s.n.promised < *cuts || s.n.recovered != s.n.cuts+s.n.copies:
		t.Error("too little happened: this run shows nothing")
	}
}

// TestCacheUnsynced is the same with the setting synchronous=OFF forced on the
// dedup cache, which is on ext4: it breaks, and the log keeps its promises all
// the same (S8).
func TestCacheUnsynced(t *testing.T) {
	needMachine(t)
	s := &series{rand: newRand(t.Name()), program: faulty, perLog: 12, env: []string{"DAYBOOK_FAULT_UNSYNCED=cache"}}
	s.run(t, *unsound, 2**images)
	t.Logf("dedup cache with synchronous=OFF on ext4:\n%s", s.n.table())
	if s.n.lostPromises > 0 || s.n.faulty > 0 {
		t.Error("a cache without fsync has cost promises")
	}
	if s.n.cacheDamaged+len(s.n.refused)+len(s.n.unusable)+s.n.hostMoved == 0 {
		t.Error("a cache without fsync was never the worse for it: what does this test see?")
	}
}

// TestStorageUnsynced is the same with a storage that does not fsync. It loses
// promises, which shows that these tests can tell.
func TestStorageUnsynced(t *testing.T) {
	needMachine(t)
	s := &series{rand: newRand(t.Name()), program: faulty, perLog: 12, env: []string{"DAYBOOK_FAULT_UNSYNCED=storage"}}
	s.run(t, *unsound, 2**images)
	t.Logf("storage without fsync:\n%s", s.n.table())
	if s.n.lostPromises == 0 {
		t.Error("a storage without fsync has lost nothing: what does this test see?")
	}
}
