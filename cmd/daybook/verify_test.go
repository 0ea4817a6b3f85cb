package main

import (
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVerifyCommand(t *testing.T) {
	d := startDevLog(t, t.TempDir())
	defer d.stop(t)
	if code, out, stderr := invoke(t, "load", "--dev", d.dir, "--count", "30", "--clients", "30"); code != exitOK {
		t.Fatalf("load: exit code %d\n%s%s", code, out, stderr)
	}
	files := t.TempDir()
	write := func(name string, b []byte) string {
		name = filepath.Join(files, name)
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	der, err := base64.StdEncoding.DecodeString(d.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	remember := filepath.Join(files, "checkpoint")
	ok := func(want string, args ...string) {
		t.Helper()
		code, out, stderr := invoke(t, append([]string{"verify", d.MonitoringPrefix}, args...)...)
		if code != exitOK || !strings.Contains(out, want) || !strings.Contains(out, "origin      "+d.Origin+"\n") {
			t.Errorf("verify %q: exit code %d\n%s%s", args, code, out, stderr)
		}
	}
	ok("tree        30 entries, root ")
	ok("31 signatures", "--signatures", "--workers", "1")
	ok("30 entries", "--key", d.PublicKey, "--origin", d.Origin)
	for name, b := range map[string][]byte{"key.der": der, "key.txt": []byte(d.PublicKey + "\n"), "key.pem": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})} {
		ok("30 entries", "--key", write(name, b), "--remember", remember)
	}

	fails := func(code int, want string, args ...string) {
		t.Helper()
		got, out, stderr := invoke(t, append([]string{"verify"}, args...)...)
		if got != code || !strings.Contains(stderr, want) || out != "" {
			t.Errorf("verify %q: exit code %d, want %d and %q\n%s%s", args, got, code, want, out, stderr)
		}
	}
	fails(exitUsage, "accepts 1 arg")
	fails(exitUsage, "is not an http or https URL", "nonsense")
	fails(exitUsage, "neither the base64 of a public key nor a file", d.MonitoringPrefix, "--key", "nonsense")
	fails(exitUsage, "public key", d.MonitoringPrefix, "--key", write("bad.pem", []byte("nonsense")))
	fails(exitFailed, "reading the checkpoint of the last run", d.MonitoringPrefix, "--remember", files)
	fails(exitFailed, "is of another log", d.MonitoringPrefix, "--origin", "other.invalid")
	fails(exitFailed, "log cannot be read", "http://127.0.0.1:1/")

	name := filepath.Join(d.dir, devData, "tile", "data", "000.p", "30")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	fails(exitFailed, "daybook: tile/data/000.p/30: not served (404), nor is the full tile\n", d.MonitoringPrefix, "--remember", remember)
}
