package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daybook-ct/daybook/internal/testca"
)

// TestHangup: SIGHUP makes the program read its roots again and go on. What it
// accepted once it accepts after a restart, too.
func TestHangup(t *testing.T) {
	path := place(t, "")
	roots := filepath.Join(filepath.Dir(path), "roots.pem")
	ca, err := testca.New(testca.Options{})
	if err != nil {
		t.Fatal(err)
	}
	submit := func(log *serving, n uint64) int {
		t.Helper()
		chain, err := ca.Make(n, testca.Leaf{})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post("http://"+log.address+"/a/"+chain.Endpoint(), "application/json", strings.NewReader(string(chain.Body())))
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		return resp.StatusCode
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(roots, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	cmd, log := start(t, path)
	if code := submit(log, 1); code != 400 {
		t.Errorf("a chain under an unknown root: %d", code)
	}
	hangup := func() {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	write(string(ca.RootPEM()))
	hangup()
	log.await(t, `"msg":"the accepted roots have changed","log":"a","roots":2,"added":1`)
	if code := submit(log, 2); code != 200 {
		t.Errorf("a chain under the new root: %d", code)
	}
	write("<html>")
	hangup()
	log.await(t, `those known stay accepted","source":"`+roots+`","outcome":"unusable"`)
	if code, body := get(t, "http://"+log.address+"/a/ct/v1/get-roots"); code != 200 || strings.Count(body, `"MII`) != 2 || submit(log, 3) != 200 {
		t.Errorf("after a bad file: %d %s", code, body)
	}
	if code, body := get(t, "http://"+log.admin+"/metrics"); code != 200 || !strings.Contains(body, `daybook_roots_reload_total{outcome="unusable",source="`+roots+`"} 1`) {
		t.Errorf("metrics: %d, without the failure", code)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the end: %v\n%s", err, log)
	}

	cmd, log = serve(t, path)
	if code := submit(log, 4); code != 200 {
		t.Errorf("a chain under the new root after a restart: %d", code)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the end: %v\n%s", err, log)
	}
}
