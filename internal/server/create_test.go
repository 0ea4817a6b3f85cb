package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/sqlitelock"
	"github.com/daybook-ct/daybook/tlog"
)

// tree returns all files below a directory, with mode and content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := info.Mode().String()
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content += " " + string(b)
		}
		files[strings.TrimPrefix(path, dir)] = content
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestCreate(t *testing.T) {
	p := newPlace(t)
	o := p.log("a")
	id, err := Create(t.Context(), o, false)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := os.ReadFile(o.KeyFile)
	if err != nil || len(seed) != checkpoint.SeedSize || bytes.Equal(seed, make([]byte, len(seed))) {
		t.Errorf("seed of %d bytes, %v", len(seed), err)
	}
	if info, err := os.Stat(o.KeyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the key: %v, %v", info.Mode(), err)
	}
	signer, err := ReadKey(o.KeyFile, "ct.example.com/a")
	if err != nil {
		t.Fatal(err)
	}
	if id.Origin != "ct.example.com/a" || id.LogID != signer.LogID() || !bytes.Equal(id.PublicKey, signer.PublicKey()) || id.VerifierKey != signer.MLDSAVerifierKey() || id.VerifierKey == "" {
		t.Errorf("identity %+v", id)
	}
	if block, rest := pem.Decode(id.PublicKeyPEM()); block == nil || len(rest) > 0 || !bytes.Equal(block.Bytes, id.PublicKey) {
		t.Errorf("public key as PEM: %s", id.PublicKeyPEM())
	}
	published, err := os.ReadFile(filepath.Join(o.StorageDirectory, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	if head, err := signer.Verifier().Verify(published); err != nil || head.Tree != (tlog.Tree{Hash: tlog.EmptyRoot}) {
		t.Errorf("first checkpoint %+v, %v", head, err)
	}
	lock, err := sqlitelock.Open(o.LockPath, sqlitelock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if locked, err := lock.Fetch(t.Context(), id.LogID); err != nil || !bytes.Equal(locked, published) {
		t.Errorf("the lock has %q, %v", locked, err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if files := slices.Sorted(maps.Keys(tree(t, p.dir))); !slices.Contains(files, "/a.db") || slices.Contains(files, "/a.db-wal") {
		t.Errorf("files %q", files)
	}
}

// Whatever part of a log exists, nothing is created and nothing is changed.
func TestCreateRefuses(t *testing.T) {
	seed := bytes.Repeat([]byte{7}, checkpoint.SeedSize)
	register := func(p *testPlace, o LogOptions) {
		q := p.log("a")
		q.StorageDirectory, q.CachePath = p.path("elsewhere"), p.path("elsewhere.db")
		p.write("a.seed", seed)
		if _, err := Create(p.t.Context(), q, true); err != nil {
			p.t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name        string
		existingKey bool
		prepare     func(*testPlace, LogOptions)
		want        []string
	}{
		{"key", false, func(p *testPlace, o LogOptions) { p.write("a.seed", seed) }, []string{"the key "}},
		{"empty key", false, func(p *testPlace, o LogOptions) { p.write("a.seed", nil) }, []string{"the key "}},
		{"link for a key", false, func(p *testPlace, o LogOptions) {
			if err := os.Symlink(p.path("nowhere"), o.KeyFile); err != nil {
				p.t.Fatal(err)
			}
		}, []string{"the key "}},
		{"storage", false, func(p *testPlace, o LogOptions) {
			if err := os.Mkdir(o.StorageDirectory, 0o755); err != nil {
				p.t.Fatal(err)
			}
			p.write("a/checkpoint", []byte("x"))
		}, []string{`the storage directory `}},
		{"cache", false, func(p *testPlace, o LogOptions) { p.write("a.db", nil) }, []string{"the cache "}},
		{"WAL of a cache", false, func(p *testPlace, o LogOptions) { p.write("a.db-wal", nil) }, []string{"the cache "}},
		{"register", true, register, []string{"a log with this key (log ID "}},
		{"everything", true, func(p *testPlace, o LogOptions) {
			p.write("a.seed", seed)
			if _, err := Create(p.t.Context(), o, true); err != nil {
				p.t.Fatal(err)
			}
		}, []string{"the storage directory ", "the cache ", "a log with this key "}},
		{"everything, without --existing-key", false, func(p *testPlace, o LogOptions) {
			if _, err := Create(p.t.Context(), o, false); err != nil {
				p.t.Fatal(err)
			}
		}, []string{"the key ", "the storage directory ", "the cache "}},
	} {
		p := newPlace(t)
		o := p.log("a")
		test.prepare(p, o)
		before := tree(t, p.dir)
		_, err := Create(t.Context(), o, test.existingKey)
		var exists *ExistsError
		if !errors.As(err, &exists) || !errors.Is(err, storage.ErrExists) || len(exists.Parts) != len(test.want) {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		for i, part := range exists.Parts {
			if !strings.HasPrefix(part, test.want[i]) || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: part %q, want %q", test.name, part, test.want[i])
			}
		}
		if after := tree(t, p.dir); !maps.Equal(before, after) {
			t.Errorf("%s: files changed from %q to %q", test.name, slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
		}
	}
}

// What may be there: the mount point of the storage, and a lock of other logs.
func TestCreateInPlace(t *testing.T) {
	p := newPlace(t)
	a, b := p.log("a"), p.log("b")
	p.create(a)
	if err := os.MkdirAll(filepath.Join(b.StorageDirectory, "lost+found"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.create(b)

	c := p.log("c")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p.write("c.seed", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	id, err := Create(t.Context(), c, true)
	if err != nil || id.VerifierKey != "" {
		t.Errorf("with a PEM key: %+v, %v", id, err)
	}
	r := p.start(Options{Logs: []LogOptions{a, b, c}})
	for _, log := range []string{"a", "b", "c"} {
		if code, body := p.submit(r, log, 1); code != 200 {
			t.Errorf("submission to %s: %d %s", log, code, body)
		}
	}
}

func TestCreateFails(t *testing.T) {
	for _, test := range []struct {
		name        string
		existingKey bool
		change      func(*testPlace, *LogOptions)
		want        string
		left        []string // files beside roots.pem
	}{
		{"prefix", false, func(p *testPlace, o *LogOptions) { o.SubmissionPrefix = "x" }, "submission prefix", nil},
		{"origin", false, func(p *testPlace, o *LogOptions) { o.Origin = "a b" }, "has a space", nil},
		{"no key", true, func(p *testPlace, o *LogOptions) {}, "an existing one is to be used", nil},
		{"bad key", true, func(p *testPlace, o *LogOptions) { p.write("a.seed", []byte("x")) }, "no seed and no PEM block", []string{"/a.seed"}},
		{"no directory for the key", false, func(p *testPlace, o *LogOptions) { o.KeyFile = p.path("none/a.seed") }, "writing the key", nil},
		{"no directory for the storage", false, func(p *testPlace, o *LogOptions) { o.StorageDirectory = p.path("none/a") },
			"made before that, and to be removed before another try: the key ", []string{"/a.seed"}},
		{"no directory for the cache", false, func(p *testPlace, o *LogOptions) { o.CachePath = p.path("none/a.db") },
			"; the storage directory ", []string{"/a", "/a.seed"}},
		{"storage is a file", false, func(p *testPlace, o *LogOptions) { o.StorageDirectory = p.path("roots.pem") }, "looking into the storage directory", nil},
	} {
		p := newPlace(t)
		o := p.log("a")
		test.change(p, &o)
		if _, err := Create(t.Context(), o, test.existingKey); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		files := tree(t, p.dir)
		delete(files, "")
		delete(files, "/roots.pem")
		if left := slices.Sorted(maps.Keys(files)); !slices.Equal(left, test.left) {
			t.Errorf("%s: %q is left, want %q", test.name, left, test.left)
		}
	}
}
