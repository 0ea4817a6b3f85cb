package power

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/test/program"
	"github.com/daybook-ct/daybook/test/witness"
)

var (
	cuts    = flag.Int("cuts", 0, "power cuts of TestPowerCuts; 0 skips all tests that need a machine")
	unsound = flag.Int("unsound", 10, "power cuts of each test of a log without its fsyncs")
	images  = flag.Int("images", 3, "further cuts that are tried on copies of the disk before each")
	seed    = flag.Uint64("seed", 1, "decides what each cut keeps")
	kernel  = flag.String("kernel", "../../bin/power", "directory with the kernel, which setup.sh has filled")
	accel   = flag.String("accel", "tcg", "QEMU's accelerator; kvm where it works")
	verbose = flag.Bool("console", false, "log the console of each machine")
)

// patience bounds every wait for something that is sure to come on a machine
// that is not broken. One without an accelerator is slow.
const patience = 2 * time.Minute

var (
	work                  string // directory of binaries and sockets
	normal, faulty, agent *program.Build
	chains                *witness.Chains
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if work, err = os.MkdirTemp("", "daybook-power-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(work) }()
	normal, faulty, agent = static("cmd/daybook", ""), static("cmd/daybook", "faultpoints"), static("test/power/guest", "")
	if chains, err = witness.NewChains(*seed); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// needMachine skips a test unless it was asked for, and fails it where
// something is missing.
func needMachine(t *testing.T) {
	t.Helper()
	if *cuts == 0 {
		t.Skip("SKIPPED, NOT TESTED: `make power` runs this")
	}
	if os.Getenv("HOME") == "" {
		t.Setenv("HOME", work) // for the go command
	}
	for _, program := range []string{"qemu-system-x86_64", "mkfs.ext4", "e2fsck", "debugfs"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: run test/power/setup.sh", err)
		}
	}
}

// static is a program of the machine, which has no libraries.
func static(pkg, tags string) *program.Build {
	return &program.Build{Dir: work, Package: pkg, Tags: tags, Flags: []string{"-ldflags", "-s -w"},
		Env: []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64"}}
}

// newRand returns a source that depends on the seed and a name alone.
func newRand(name string) *rand.Rand { return witness.NewRand(*seed, name) }
