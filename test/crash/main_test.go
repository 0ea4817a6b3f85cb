package crash

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/internal/testca"
)

var (
	kills = flag.Int("kills", 40, "kills of TestKills; 40 has each place at least once")
	seed  = flag.Uint64("seed", 1, "decides places and times of the kills, and bits that are flipped")
	pause = flag.Duration("pause", 3*time.Second, "how long TestSuspended stops the process")
	flips = flag.Int("flips", 1, "bits to flip in each kind of file, beside those chosen by hand")
)

// build makes the program, with or without fault points, once.
type build struct {
	once sync.Once
	tags string
	path string
	err  error
}

var (
	normal = build{}
	faulty = build{tags: "faultpoints"}

	binaries string // directory
	ca       *testca.CA
	started  = time.Now().Truncate(time.Second)
)

func TestMain(m *testing.M) {
	flag.Parse()
	// They wait most of the time, for rounds, and for clocks and disks.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if binaries, err = os.MkdirTemp("", "daybook-crash-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(binaries) }()
	if ca, err = testca.New(testca.Options{Seed: *seed}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func (b *build) binary(t testing.TB) string {
	t.Helper()
	b.once.Do(func() {
		b.path = filepath.Join(binaries, "daybook"+b.tags)
		cmd := exec.Command("go", "build", "-tags", b.tags, "-o", b.path, "../../cmd/daybook")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("building the program: %w\n%s", err, out)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.path
}

// TestNormalBinaryHasNoFaultPoints: nothing in the environment can end or
// mislead the program that operators run.
func TestNormalBinaryHasNoFaultPoints(t *testing.T) {
	for _, c := range []struct {
		b    *build
		want bool
	}{{&normal, false}, {&faulty, true}} {
		program, err := os.ReadFile(c.b.binary(t))
		if err != nil {
			t.Fatal(err)
		}
		if has := bytes.Contains(program, []byte("DAYBOOK_FAULT")); has != c.want {
			t.Errorf("binary with tags %q has fault points: %v", c.b.tags, has)
		}
	}
}

// newRand returns a source that depends on the seed and a name alone.
func newRand(name string) *rand.Rand {
	h := uint64(14695981039346656037)
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(*seed, h))
}
