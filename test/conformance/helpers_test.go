package conformance_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/daybook-ct/daybook/test/conformance/own"
)

// daybookBinary builds daybook once for all tests.
var daybookBinary = sync.OnceValues(func() (string, error) { return own.Build(context.Background(), scratch) })

// scratch is where the binary and the shared logs are.
var scratch string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	// The tests wait for rounds of logs most of their time.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		return 1, err
	}
	if scratch, err = os.MkdirTemp("", "conformance"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, stopLogs(), os.RemoveAll(scratch)) }()
	return m.Run(), nil
}

// casesDir is the folder of the cases, "" if it is absent.
func casesDir() string {
	dir := os.Getenv("DAYBOOK_CASES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "cases")
	}
	dir, err := filepath.Abs(filepath.Join(dir, "open"))
	if err != nil {
		return ""
	}
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

// requireCases skips a test that is nothing without the cases.
func requireCases(t *testing.T) string {
	t.Helper()
	dir := casesDir()
	if dir == "" {
		t.Skip("SKIPPED, NOT TESTED: there is no folder of cases (set DAYBOOK_CASES)")
	}
	return dir
}

// goodLogs are daybook logs that many tests read and write.
var goodLogs = struct {
	sync.Mutex
	by map[string]*own.Dev
}{by: make(map[string]*own.Dev)}

// goodLog returns the log with this name, which it starts with the arguments
// the first time.
func goodLog(t *testing.T, name string, args ...string) *own.Dev {
	t.Helper()
	path, err := daybookBinary()
	if err != nil {
		t.Fatal(err)
	}
	goodLogs.Lock()
	defer goodLogs.Unlock()
	if d := goodLogs.by[name]; d != nil {
		return d
	}
	d, err := own.StartDev(path, filepath.Join(scratch, name), append([]string{"--interval", "20ms"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	goodLogs.by[name] = d
	return d
}

func stopLogs() error {
	var errs []error
	for _, d := range goodLogs.by {
		errs = append(errs, d.Stop())
	}
	return errors.Join(errs...)
}
