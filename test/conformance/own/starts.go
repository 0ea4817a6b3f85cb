package own

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/daybook-ct/daybook/test/conformance"
)

// starts are logs that must not start, and the like of them that must.
func (s *suite) starts(context.Context) (*conformance.Report, error) {
	rep := conformance.NewReport()
	for i, origin := range []string{"log.example/a b", "log.example/a+b", "log.example/a\u00a0b", "log.example/\x01", "log.example/a/", "https://log.example/a"} {
		d := s.newDev(fmt.Sprintf("origin%d", i), "--origin", origin)
		s.mustRefuse(rep, "K2 N3 T1", fmt.Sprintf("a log with the origin %q", origin), d)
	}
	keys, err := badKeys()
	if err != nil {
		return nil, err
	}
	for name, key := range keys {
		d := s.newDev("key-" + name)
		if err := writeKey(d.dir, key); err != nil {
			return nil, err
		}
		s.mustRefuse(rep, "R3", "a log with the key "+name, d)
	}
	good, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	d := s.newDev("key-p256")
	if err := writeKey(d.dir, good); err != nil {
		return nil, err
	}
	err = d.run()
	rep.Check("R3", err == nil, "a log with a P-256 key in PEM: %v", err)
	return rep, d.stop()
}

func badKeys() (map[string]crypto.Signer, error) {
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		return nil, err
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	return map[string]crypto.Signer{"p384": p384, "ed25519": ed, "rsa1024": small}, err
}

func writeKey(dir string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "seed.bin"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

// mustRefuse starts a log, which must end by itself, with a message and no
// panic.
func (s *suite) mustRefuse(rep *conformance.Report, ids, what string, d *Dev) {
	err := d.run()
	if err == nil {
		err = d.stop()
		rep.CheckAll(ids, false, "%s was started (and ended: %v)", what, err)
		return
	}
	b, readErr := os.ReadFile(d.log)
	text := string(b)
	sane := readErr == nil && strings.Contains(text, "daybook: ") && !strings.Contains(text, "goroutine ")
	rep.CheckAll(ids, sane, "%s: it says %q", what, text)
}

// rootFiles starts logs with odd files of accepted roots.
func (s *suite) rootFiles(ctx context.Context) (*conformance.Report, error) {
	sum := conformance.NewReport()
	for _, f := range []struct {
		path  string
		least int
		exact bool // what is listed can be told from the file alone
	}{
		{"roots/messy-roots.pem", 4, true}, {"roots/quirky-roots.pem", 3, true}, {"roots/arche2026h1-roots.pem", 662, true}, {"odd/odd.pem", 10, false},
	} {
		path := filepath.Join(s.o.Cases, f.path)
		d := s.newDev("roots-"+strings.TrimSuffix(filepath.Base(f.path), ".pem"), "--roots", path)
		t, o, err := s.devTarget(d)
		if err != nil {
			sum.CheckAll("B01 B04 H14", false, "a log with the roots of %s: %v", f.path, err)
			continue
		}
		usable, err := conformance.UsableRoots(path)
		if err != nil {
			return nil, err
		}
		sum.CheckAll("B04", len(usable) >= f.least, "%s has %d usable roots, want %d", f.path, len(usable), f.least)
		if f.exact {
			t.Roots = usable
		}
		o.Only = []string{"R9", "R32", "H14", "B01", "B04"}
		rep, err := s.judge(ctx, &d.process, t, o)
		if err != nil {
			return nil, err
		}
		for _, id := range []string{"R9", "R32", "H14"} {
			res := rep.Result(id)
			sum.CheckAll(id+" B04 B01", res.Status == conformance.OK, "with the roots of %s: %q", f.path, res.Faults)
		}
	}
	return sum, nil
}
