package crash

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/test/program"
	"github.com/daybook-ct/daybook/test/witness"
)

var (
	kills = flag.Int("kills", 40, "kills of TestKills; 40 has each place at least once")
	seed  = flag.Uint64("seed", 1, "decides places and times of the kills, and bits that are flipped")
	pause = flag.Duration("pause", 3*time.Second, "how long TestSuspended stops the process")
	flips = flag.Int("flips", 1, "bits to flip in each kind of file, beside those chosen by hand")
)

var (
	binaries       string         // directory
	normal, faulty *program.Build // without and with fault points
	chains         *witness.Chains
)

func TestMain(m *testing.M) {
	flag.Parse()
	// They wait most of the time, for rounds, and for clocks and disks.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(tests(m))
}

func tests(m *testing.M) int {
	var err error
	if binaries, err = os.MkdirTemp("", "daybook-crash-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(binaries) }()
	normal = &program.Build{Dir: binaries, Package: "cmd/daybook"}
	faulty = &program.Build{Dir: binaries, Package: "cmd/daybook", Tags: "faultpoints"}
	if chains, err = witness.NewChains(*seed); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// TestNormalBinaryHasNoFaultPoints: nothing in the environment can end or
// mislead the program that operators run.
func TestNormalBinaryHasNoFaultPoints(t *testing.T) {
	for _, c := range []struct {
		b    *program.Build
		want bool
	}{{normal, false}, {faulty, true}} {
		binary, err := os.ReadFile(c.b.Path(t))
		if err != nil {
			t.Fatal(err)
		}
		if has := bytes.Contains(binary, []byte("DAYBOOK_FAULT")); has != c.want {
			t.Errorf("binary with tags %q has fault points: %v", c.b.Tags, has)
		}
	}
}

// newRand returns a source that depends on the seed and a name alone.
func newRand(name string) *rand.Rand { return witness.NewRand(*seed, name) }
