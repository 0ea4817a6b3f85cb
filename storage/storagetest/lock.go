package storagetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/daybook-ct/daybook/storage"
)

// TestLock runs the contract of [storage.Lock]. newLock returns a new lock
// without registers, and registers what it needs to release with tb.Cleanup.
func TestLock(t *testing.T, newLock func(tb testing.TB) storage.Lock) {
	for _, c := range lockCases {
		t.Run(c.name, func(t *testing.T) { c.run(t, newLock(t)) })
	}
}

// TestLocks runs the part of the contract that concerns several handles on
// the same registers, as two processes have them. newLocks returns n handles,
// which share registers that do not exist yet.
func TestLocks(t *testing.T, newLocks func(tb testing.TB, n int) []storage.Lock) {
	for _, c := range locksCases {
		t.Run(c.name, func(t *testing.T) { c.run(t, newLocks(t, 4)) })
	}
}

// TestLockReopen checks that registers survive the lock. It works as
// [TestStoreReopen] does.
func TestLockReopen(t *testing.T, newPlace func(tb testing.TB) (open func() storage.Lock)) {
	testLockReopen(t, newPlace)
}

type lockCase struct {
	name string
	run  func(t testing.TB, l storage.Lock)
}

type locksCase struct {
	name string
	run  func(t testing.TB, locks []storage.Lock)
}

var lockCases = []lockCase{
	{"NotFound", lockNotFound},
	{"Create", lockCreate},
	{"Swap", lockSwap},
	{"SwapComparesAllBytes", lockSwapComparesAllBytes},
	{"Empty", lockEmpty},
	{"Large", lockLarge},
	{"Copies", lockCopies},
	{"LogIDs", lockLogIDs},
	{"Cancelled", lockCancelled},
	{"OneWinner", func(t testing.TB, l storage.Lock) { lockOneWinner(t, []storage.Lock{l}) }},
	{"OneCreator", func(t testing.TB, l storage.Lock) { lockOneCreator(t, []storage.Lock{l}) }},
	{"NoLostUpdate", func(t testing.TB, l storage.Lock) { lockNoLostUpdate(t, []storage.Lock{l}) }},
}

var locksCases = []locksCase{
	{"SeeEachOther", locksSeeEachOther},
	{"OneWinner", lockOneWinner},
	{"OneCreator", lockOneCreator},
	{"NoLostUpdate", lockNoLostUpdate},
}

// logID returns IDs that differ in little.
func logID(last byte) (id [32]byte) {
	id[31] = last
	return id
}

func register(t testing.TB, l storage.Lock, id [32]byte, want []byte) {
	t.Helper()
	got, err := l.Fetch(t.Context(), id)
	if err != nil {
		t.Errorf("fetching: %v", err)
		return
	}
	wantBytes(t, "register", got, want)
}

func create(t testing.TB, l storage.Lock, id [32]byte, body []byte) {
	t.Helper()
	noErr(t, "creating a register", l.Create(t.Context(), id, body))
}

func swap(t testing.TB, l storage.Lock, id [32]byte, old, new []byte) {
	t.Helper()
	noErr(t, fmt.Sprintf("swapping %s for %s", brief(old), brief(new)), l.Swap(t.Context(), id, old, new))
}

func absent(t testing.TB, l storage.Lock, id [32]byte) {
	t.Helper()
	_, err := l.Fetch(t.Context(), id)
	wantErr(t, "fetching an absent register", err, storage.ErrNotFound)
}

func lockNotFound(t testing.TB, l storage.Lock) {
	id := logID(1)
	absent(t, l, id)
	for _, old := range [][]byte{nil, {}, []byte("old")} {
		err := l.Swap(t.Context(), id, old, []byte("new"))
		wantErr(t, "swapping an absent register", err, storage.ErrNotFound)
		absent(t, l, id)
	}
}

func lockCreate(t testing.TB, l storage.Lock) {
	id := logID(1)
	create(t, l, id, []byte("first"))
	register(t, l, id, []byte("first"))
	for _, body := range []string{"second", "first", ""} {
		wantErr(t, "creating again", l.Create(t.Context(), id, []byte(body)), storage.ErrExists)
		register(t, l, id, []byte("first"))
	}
}

func lockSwap(t testing.TB, l storage.Lock) {
	id := logID(1)
	create(t, l, id, []byte("0"))
	for i := range 20 {
		old, new := []byte(strconv.Itoa(i)), []byte(strconv.Itoa(i+1))
		wantErr(t, "swapping from the wrong bytes", l.Swap(t.Context(), id, new, []byte("x")), storage.ErrConflict)
		register(t, l, id, old)
		swap(t, l, id, old, new)
		register(t, l, id, new)
		wantErr(t, "swapping again", l.Swap(t.Context(), id, old, new), storage.ErrConflict)
		register(t, l, id, new)
	}
	swap(t, l, id, []byte("20"), []byte("20"))
	register(t, l, id, []byte("20"))
	wantErr(t, "creating after swaps", l.Create(t.Context(), id, []byte("0")), storage.ErrExists)
}

func lockSwapComparesAllBytes(t testing.TB, l storage.Lock) {
	id := logID(1)
	for _, body := range []string{"checkpoint\n\n\u2014 sig\n", "a\x00b", "\xff\xfe not UTF-8", "ABC", "1", " 1"} {
		id[0]++
		create(t, l, id, []byte(body))
		for _, old := range []string{body + "x", body + "\x00", body + " ", " " + body, body[:len(body)-1], body[1:], "", "abc", "1.0"} {
			err := l.Swap(t.Context(), id, []byte(old), []byte("new"))
			wantErr(t, fmt.Sprintf("swapping from %q instead of %q", old, body), err, storage.ErrConflict)
		}
		register(t, l, id, []byte(body))
		swap(t, l, id, []byte(body), []byte(body+body))
		register(t, l, id, []byte(body+body))
	}
}

// lockEmpty is for stores in which no bytes and no value are two things.
func lockEmpty(t testing.TB, l storage.Lock) {
	for i, empty := range [][]byte{nil, {}} {
		id := logID(byte(i))
		create(t, l, id, empty)
		register(t, l, id, nil)
		wantErr(t, "creating again", l.Create(t.Context(), id, nil), storage.ErrExists)
		wantErr(t, "swapping from other bytes", l.Swap(t.Context(), id, []byte("x"), nil), storage.ErrConflict)
		swap(t, l, id, nil, []byte("one"))
		register(t, l, id, []byte("one"))
		wantErr(t, "swapping from nothing", l.Swap(t.Context(), id, nil, []byte("x")), storage.ErrConflict)
		wantErr(t, "swapping from nothing", l.Swap(t.Context(), id, []byte{}, []byte("x")), storage.ErrConflict)
		swap(t, l, id, []byte("one"), empty)
		register(t, l, id, nil)
		swap(t, l, id, []byte{}, []byte{})
		swap(t, l, id, []byte{}, []byte("two"))
		register(t, l, id, []byte("two"))
	}
}

func lockLarge(t testing.TB, l storage.Lock) {
	id := logID(1)
	a, b := pattern("a", 300_000), pattern("b", 300_000)
	create(t, l, id, a)
	changed := append([]byte(nil), a...)
	changed[len(changed)-1] ^= 1
	wantErr(t, "swapping with one bit changed", l.Swap(t.Context(), id, changed, b), storage.ErrConflict)
	swap(t, l, id, a, b)
	register(t, l, id, b)
}

func lockCopies(t testing.TB, l storage.Lock) {
	id := logID(1)
	body := []byte("created")
	create(t, l, id, body)
	copy(body, "XX")
	register(t, l, id, []byte("created"))
	body = []byte("swapped")
	swap(t, l, id, []byte("created"), body)
	copy(body, "XX")
	register(t, l, id, []byte("swapped"))
	got, err := l.Fetch(t.Context(), id)
	noErr(t, "fetching", err)
	copy(got, "XX")
	register(t, l, id, []byte("swapped"))
}

func lockLogIDs(t testing.TB, l storage.Lock) {
	var ids [][32]byte
	for i := range 32 {
		var id [32]byte
		id[i] = 0x80
		ids = append(ids, id)
	}
	ids = append(ids, [32]byte{})
	for i, id := range ids {
		absent(t, l, id)
		create(t, l, id, []byte{byte(i)})
	}
	for i, id := range ids {
		register(t, l, id, []byte{byte(i)})
		swap(t, l, id, []byte{byte(i)}, []byte{byte(i), 1})
		for j, other := range ids {
			want := []byte{byte(j)}
			if j <= i {
				want = append(want, 1)
			}
			register(t, l, other, want)
		}
	}
	absent(t, l, logID(1))
}

func lockCancelled(t testing.TB, l storage.Lock) {
	id := logID(1)
	ctx := cancelled(t)
	wantErr(t, "creating with a cancelled context", l.Create(ctx, id, []byte("a")), context.Canceled)
	if err := l.Create(t.Context(), id, []byte("a")); err != nil && !errors.Is(err, storage.ErrExists) {
		t.Fatalf("creating: %v", err)
	}
	register(t, l, id, []byte("a"))

	// The outcome of a cancelled Swap is unknown, but it is one of two.
	wantErr(t, "swapping with a cancelled context", l.Swap(ctx, id, []byte("a"), []byte("b")), context.Canceled)
	got, err := l.Fetch(t.Context(), id)
	noErr(t, "fetching", err)
	if string(got) != "a" && string(got) != "b" {
		t.Errorf("register is %s after a cancelled swap of a for b", brief(got))
	}
	if _, err := l.Fetch(ctx, id); errors.Is(err, storage.ErrNotFound) {
		t.Errorf("fetching with a cancelled context: %v, which is not known", err)
	}
	swap(t, l, id, got, []byte("c"))
	register(t, l, id, []byte("c"))
}

func locksSeeEachOther(t testing.TB, locks []storage.Lock) {
	id := logID(1)
	for _, l := range locks {
		absent(t, l, id)
	}
	create(t, locks[0], id, nil)
	value := []byte(nil)
	for i := range 20 {
		a, b := locks[i%len(locks)], locks[(i+1)%len(locks)]
		register(t, a, id, value)
		next := []byte(fmt.Sprint("value ", i))
		swap(t, a, id, value, next)
		register(t, b, id, next)
		wantErr(t, "swapping what another handle has swapped", b.Swap(t.Context(), id, value, []byte("x")), storage.ErrConflict)
		value = next
	}
}

// lockOneWinner is the property that keeps a log from forking.
func lockOneWinner(t testing.TB, locks []storage.Lock) {
	const swappers, rounds = 8, 20
	id := logID(1)
	value := []byte("start")
	create(t, locks[0], id, value)
	for r := range rounds {
		errs := make([]error, swappers)
		var wg sync.WaitGroup
		for i := range swappers {
			wg.Go(func() {
				errs[i] = locks[i%len(locks)].Swap(t.Context(), id, value, fmt.Appendf(nil, "round %d, swapper %d", r, i))
			})
		}
		wg.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner < 0:
				winner = i
			case err == nil:
				t.Errorf("round %d: swappers %d and %d both won", r, winner, i)
			default:
				wantErr(t, "losing swapper", err, storage.ErrConflict)
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: nobody won", r)
		}
		value = fmt.Appendf(nil, "round %d, swapper %d", r, winner)
		register(t, locks[r%len(locks)], id, value)
	}
}

func lockOneCreator(t testing.TB, locks []storage.Lock) {
	const creators = 8
	for r := range 10 {
		id := logID(byte(r))
		errs := make([]error, creators)
		var wg sync.WaitGroup
		for i := range creators {
			wg.Go(func() { errs[i] = locks[i%len(locks)].Create(t.Context(), id, []byte{byte(i)}) })
		}
		wg.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner < 0:
				winner = i
			case err == nil:
				t.Errorf("creators %d and %d both won", winner, i)
			default:
				wantErr(t, "losing creator", err, storage.ErrExists)
			}
		}
		if winner < 0 {
			t.Fatal("nobody created the register")
		}
		register(t, locks[r%len(locks)], id, []byte{byte(winner)})
	}
}

// lockNoLostUpdate counts in the register, as loosely as several writers can.
func lockNoLostUpdate(t testing.TB, locks []storage.Lock) {
	const counters, each = 4, 15
	id := logID(1)
	create(t, locks[0], id, []byte("0"))
	var wg sync.WaitGroup
	for c := range counters {
		l := locks[c%len(locks)]
		wg.Go(func() {
			for done := 0; done < each; {
				old, err := l.Fetch(t.Context(), id)
				if err != nil {
					t.Errorf("fetching: %v", err)
					return
				}
				n, err := strconv.Atoi(string(old))
				if err != nil {
					t.Errorf("register is %s, which nobody wrote", brief(old))
					return
				}
				switch err := l.Swap(t.Context(), id, old, strconv.AppendInt(nil, int64(n)+1, 10)); {
				case err == nil:
					done++
				case !errors.Is(err, storage.ErrConflict):
					t.Errorf("swapping: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	register(t, locks[0], id, []byte(strconv.Itoa(counters*each)))
}

func testLockReopen(t testing.TB, newPlace func(tb testing.TB) func() storage.Lock) {
	open := newPlace(t)
	l := open()
	create(t, l, logID(1), []byte("one"))
	create(t, l, logID(2), nil)
	swap(t, l, logID(1), []byte("one"), []byte("more"))
	closeIt(t, l)

	l = open()
	register(t, l, logID(1), []byte("more"))
	register(t, l, logID(2), nil)
	absent(t, l, logID(3))
	wantErr(t, "creating after reopening", l.Create(t.Context(), logID(2), nil), storage.ErrExists)
	wantErr(t, "swapping after reopening", l.Swap(t.Context(), logID(1), []byte("one"), nil), storage.ErrConflict)
	swap(t, l, logID(2), nil, []byte("two"))
	swap(t, l, logID(1), []byte("more"), []byte("most"))
	closeIt(t, l)

	l = open()
	register(t, l, logID(1), []byte("most"))
	register(t, l, logID(2), []byte("two"))
	closeIt(t, l)
}
