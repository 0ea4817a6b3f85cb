package crash

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// aged returns a log that has grown since a copy of it was made.
func aged(t *testing.T) (now, before *subject) {
	t.Helper()
	before = fork(t, false)
	now = before.fork(t, "")
	p := now.serve(t, how{})
	now.fill(t, p, 100)
	p.stop(t)
	return now, before
}

// TestRestoredBackup puts old copies of parts of a log in the place of the
// present ones.
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		parts   []string
		refused string
	}{
		{"lock", []string{"lock.db"}, "is newer than the lock's"},
		{"storage", []string{"data"}, "was the storage restored from a backup?"},
		{"cache", []string{"cache.db"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			now, before := aged(t)
			now.restore(t, before.logDir, c.parts...)
			if c.refused != "" {
				if message := now.refuses(t, how{}); !strings.Contains(message, c.refused) {
					t.Errorf("refused with\n%s\nwant\n%s", message, c.refused)
				} else {
					t.Log(message)
				}
				return
			}
			p := now.serve(t, how{})
			now.MayMove(true)
			now.Resubmit(t.Context(), p.Addr, 100)
			n := now.sound(t, p)
			if n == 0 {
				t.Error("no entry was logged twice")
			}
			t.Logf("%d entries were logged twice", n)
		})
	}
}

// TestRolledBack puts old copies of lock and storage back, as a snapshot of the
// whole machine does. Nothing on it can tell then; the public can, if there is
// somebody else who serves the log to it, as the process asks before it starts.
func TestRolledBack(t *testing.T) {
	t.Parallel()
	const name = "mon.daybook-crash.net" // asked of a proxy, and looked up by nobody
	now, before := aged(t)
	rolled := now.fork(t, "")
	rolled.restore(t, before.logDir, "lock.db", "data")
	env := public(t, name, now.at("data"))
	rolled.write(t, "daybook.yaml", layout{monitoring: "https://" + name + "/"}.configuration())
	message := rolled.refuses(t, how{env: env})
	if !strings.Contains(message, "the monitoring prefix shows a checkpoint") || !strings.Contains(message, "is newer than the lock's") {
		t.Error(message)
	}
	t.Log(message)
	// The log that was not rolled back starts with that.
	now.write(t, "daybook.yaml", layout{monitoring: "https://" + name + "/"}.configuration())
	now.serve(t, how{env: env}).stop(t)

	// With nobody to ask it starts, and says so. It is about to show a second
	// history; a cache that was not rolled back gives it away.
	p := rolled.serve(t, how{env: public(t, "mon.daybook-crash.org", now.at("data"))})
	t.Log(p.says(t, "the public checkpoint could not be compared with the lock"))
	rolled.Resubmit(t.Context(), p.Addr, 200)
	t.Log(p.says(t, "but the tree ends at"))
}

// public serves a directory under a name, over HTTPS, and returns the
// environment in which a process finds it.
func public(t *testing.T, name, dir string) (env []string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: chains.Started.Add(-time.Hour), NotAfter: chains.Started.Add(time.Hour), DNSNames: []string{name},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	site := httptest.NewUnstartedServer(http.FileServer(http.Dir(dir)))
	site.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	site.StartTLS()
	t.Cleanup(site.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != name+":443" {
			http.Error(w, "not here", http.StatusBadGateway)
			return
		}
		behind, err := net.Dial("tcp", site.Listener.Addr().String())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		c, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(behind, buffered); _ = behind.Close() }() // until either has enough
		_, _ = io.Copy(c, behind)
		_ = c.Close()
	}))
	t.Cleanup(proxy.Close)
	return []string{"HTTPS_PROXY=" + proxy.URL, "NO_PROXY=", "SSL_CERT_FILE=" + file}
}

// TestLockOfAnotherTime: a checkpoint of the same tree, but older, is an old
// copy, too.
func TestLockOfAnotherTime(t *testing.T) {
	t.Parallel()
	now := fork(t, false)
	before := now.fork(t, "")
	now.serve(t, how{}).stop(t) // signs once more
	now.restore(t, before.logDir, "lock.db")
	if message := now.refuses(t, how{}); !strings.Contains(message, "is newer than the lock's") {
		t.Error(message)
	}
}

// TestTwoProcessesOneDirectory: the second one does not start, and the first
// one does not notice.
func TestTwoProcessesOneDirectory(t *testing.T) {
	t.Parallel()
	s := fork(t, false)
	p := s.serve(t, how{})
	for range 2 {
		message := s.refuses(t, how{})
		if !strings.Contains(message, "another daybook process is writing to it") {
			t.Error(message)
		}
		t.Log(message)
	}
	s.fill(t, p, 50)
	s.sound(t, p)
	p.kill()
	p = s.serve(t, how{}) // the lock of the dead holds nobody
	s.sound(t, p)
}

// TestTwoProcessesOneLock runs two processes on copies of the storage with one
// lock, as a failover gone wrong does. One of them goes on; the other halts
// before it promises anything, and what it serves stays a part of the log.
func TestTwoProcessesOneLock(t *testing.T) {
	t.Parallel()
	one := fork(t, false)
	two := one.fork(t, "")
	lock := one.at("lock.db")
	two.write(t, "daybook.yaml", layout{lock: lock}.configuration())
	p, q := one.serve(t, how{}), two.serve(t, how{})
	stop := []func(){one.watch(t, p), two.watch(t, q)}
	var winner, loser *subject
	var w, l *process
	select {
	case <-p.saying(`"msg":"log has halted`):
		winner, loser, w, l = two, one, q, p
	case <-q.saying(`"msg":"log has halted`):
		winner, loser, w, l = one, two, p, q
	}
	cause := l.halts(t)
	if !strings.Contains(cause, "another process has written this log's lock") {
		t.Errorf("halted with %s", cause)
	}
	t.Log(cause)
	loser.refused(t, l, http.StatusInternalServerError)
	winner.fill(t, w, 100)
	for _, stop := range stop {
		stop()
	}
	// Nobody who looks at both sees two histories.
	winner.Adopt(loser.Witness)
	winner.sound(t, w)
	loser.sound(t, l)
	l.kill()
	message := loser.refuses(t, how{})
	if !strings.Contains(message, "was the storage restored from a backup?") {
		t.Error(message)
	}
	t.Log(message)
	winner.fill(t, w, 20)
	winner.sound(t, w)
}

// TestLockHeld: a process that was suspended in the middle of its commit keeps
// others from the lock, so from starting.
func TestLockHeld(t *testing.T) {
	t.Parallel()
	s := fork(t, false)
	c, err := sqlite.OpenConn(s.at("lock.db"), sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := sqlitex.ExecuteTransient(c, "BEGIN IMMEDIATE", nil); err != nil {
		t.Fatal(err)
	}
	message := s.refuses(t, how{})
	if !strings.Contains(message, "it cannot be written to: sqlite: step: database is locked") {
		t.Error(message)
	}
	t.Log(message)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	s.sound(t, s.serve(t, how{}))
}

// saying returns a channel that is closed when the process says this text. It
// stays open if the process ends without.
func (p *process) saying(text string) <-chan struct{} {
	said := make(chan struct{})
	go func() {
		if _, ok := p.Out.Wait(text); ok {
			close(said)
		}
	}()
	return said
}

// TestReplacedKey: another seed is another log.
func TestReplacedKey(t *testing.T) {
	t.Parallel()
	s := fork(t, false)
	other := newSubject(t, layout{})
	for name, want := range map[string]string{
		"seed.bin": "is it the right key, and the right lock?",
		"lock.db":  "is it the right key, and the right lock?",
		"data":     "the published checkpoint is not this log's",
	} {
		t.Run(name, func(t *testing.T) {
			f := s.fork(t, "")
			f.restore(t, other.logDir, name)
			message := f.refuses(t, how{})
			if !strings.Contains(message, want) {
				t.Error(message)
			}
			t.Log(message)
		})
	}
}

// TestDeletedWAL takes a WAL away from a killed process's databases.
func TestDeletedWAL(t *testing.T) {
	t.Parallel()
	template := killedHere(t, afterPut)
	for _, c := range []struct {
		name, refused string
	}{
		{"cache.db", ""},
		{"lock.db", "is newer than the lock's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := template.fork(t, "")
			if info, err := os.Stat(s.at(c.name + "-wal")); err != nil || info.Size() == 0 {
				t.Fatalf("there is no WAL to take away: %v", err)
			}
			s.remove(t, c.name+"-wal", c.name+"-shm")
			if c.refused != "" {
				message := s.refuses(t, how{})
				if !strings.Contains(message, c.refused) {
					t.Error(message)
				}
				t.Log(message)
				return
			}
			p := s.serve(t, how{})
			s.MayMove(true)
			s.Resubmit(t.Context(), p.Addr, 100)
			t.Logf("%d entries were logged twice", s.sound(t, p))
		})
	}
}
