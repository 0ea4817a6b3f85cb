package storagetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/daybook-ct/daybook/storage"
)

// TestStore runs the contract of [storage.Store]. newStore returns a new,
// empty store, and registers what it needs to release with tb.Cleanup.
func TestStore(t *testing.T, newStore func(tb testing.TB) storage.Store) {
	for _, c := range storeCases {
		t.Run(c.name, func(t *testing.T) { c.run(t, newStore(t)) })
		t.Run(c.name+"/Show", func(t *testing.T) { c.run(t, shown{newStore(t)}) })
	}
}

// shown is a store whose Put is Show, of which all but durability is asked, too.
type shown struct{ storage.Store }

func (s shown) Put(ctx context.Context, objects ...storage.Object) error {
	return s.Show(ctx, objects...)
}

// TestStoreReopen checks that what a store holds survives it. newPlace returns
// a function that opens a store on one and the same place, new and empty at
// first; the suite calls it again only when it is done with the store before,
// which it closes if it has a Close method.
func TestStoreReopen(t *testing.T, newPlace func(tb testing.TB) (open func() storage.Store)) {
	testStoreReopen(t, newPlace)
	t.Run("Show", func(t *testing.T) {
		testStoreReopen(t, func(tb testing.TB) func() storage.Store {
			open := newPlace(tb)
			return func() storage.Store { return synced{open()} }
		})
	})
}

// synced is a store whose Put is Show and Sync, which together are as durable.
type synced struct{ storage.Store }

func (s synced) Put(ctx context.Context, objects ...storage.Object) error {
	if err := s.Show(ctx, objects...); err != nil {
		return err
	}
	return s.Sync(ctx)
}

func (s synced) Close() error {
	if c, ok := s.Store.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

type storeCase struct {
	name string
	run  func(t testing.TB, s storage.Store)
}

var storeCases = []storeCase{
	{"NotFound", storeNotFound},
	{"PutGet", storePutGet},
	{"Copies", storeCopies},
	{"EqualAgain", storeEqualAgain},
	{"ChangedImmutable", storeChangedImmutable},
	{"ChangedInOnePut", storeChangedInOnePut},
	{"ReplaceMutable", storeReplaceMutable},
	{"Empty", storeEmpty},
	{"Large", storeLarge},
	{"Many", storeMany},
	{"InvalidNames", storeInvalidNames},
	{"List", storeList},
	{"Delete", storeDelete},
	{"Cancelled", storeCancelled},
	{"CancelledMidway", storeCancelledMidway},
	{"AtomicReplace", storeAtomicReplace},
	{"ConcurrentPuts", storeConcurrentPuts},
	{"ConcurrentChanged", storeConcurrentChanged},
}

func put(t testing.TB, s storage.Store, objects ...storage.Object) {
	t.Helper()
	if err := s.Put(t.Context(), objects...); err != nil {
		t.Fatalf("putting %d objects: %v", len(objects), err)
	}
}

// holds checks that the store has the object with these bytes.
func holds(t testing.TB, s storage.Store, name string, want []byte) {
	t.Helper()
	got, err := s.Get(t.Context(), name)
	if err != nil {
		t.Errorf("getting %s: %v", name, err)
		return
	}
	wantBytes(t, name, got, want)
}

func lacks(t testing.TB, s storage.Store, name string) {
	t.Helper()
	_, err := s.Get(t.Context(), name)
	wantErr(t, "getting absent "+name, err, storage.ErrNotFound)
}

func storeNotFound(t testing.TB, s storage.Store) {
	for _, name := range allNames() {
		lacks(t, s, name)
	}
	// A neighbour in the hierarchy does not bring a name into being, nor does
	// it turn the absence into another error.
	put(t, s, object("tile/0/000.p/5", []byte("x")), object("tile/0/x001/000", []byte("x")), object("tile/1/000", []byte("x")))
	for _, name := range []string{"tile/0/000", "tile/0/000.p/6", "tile/0/001", "tile/0/x001/001", "tile/0/x001/000.p/1",
		"tile/1/000.p/1", "tile/1/x001/000", "tile/2/000", "tile/data/000", "checkpoint"} {
		lacks(t, s, name)
	}
}

func storePutGet(t testing.TB, s storage.Store) {
	for i, name := range allNames() {
		put(t, s, object(name, pattern(name, 100+i)))
	}
	for i, name := range allNames() {
		holds(t, s, name, pattern(name, 100+i))
	}
}

func storeCopies(t testing.TB, s storage.Store) {
	for _, name := range []string{"checkpoint", "tile/0/000"} {
		data := []byte("as it was put")
		put(t, s, object(name, data))
		copy(data, "XX")
		holds(t, s, name, []byte("as it was put"))

		got, err := s.Get(t.Context(), name)
		noErr(t, "getting "+name, err)
		copy(got, "XX")
		holds(t, s, name, []byte("as it was put"))
	}
}

func storeEqualAgain(t testing.TB, s storage.Store) {
	var all []storage.Object
	for _, name := range allNames() {
		all = append(all, object(name, pattern(name, 500)))
	}
	put(t, s, all...)
	for _, o := range all {
		put(t, s, o)
	}
	put(t, s, all...)
	// Old and new in one Put, as when recovery applies a bundle of which a
	// part is applied already.
	put(t, s, append(all, object("tile/0/007", []byte("new")))...)
	put(t, s, object("tile/0/008", []byte("twice")), object("tile/0/008", []byte("twice")))
	holds(t, s, "tile/0/007", []byte("new"))
	holds(t, s, "tile/0/008", []byte("twice"))
	for _, o := range all {
		holds(t, s, o.Name, o.Data)
	}
}

// storeChangedImmutable is invariant S7.
func storeChangedImmutable(t testing.TB, s storage.Store) {
	old := pattern("old", 300)
	for _, name := range immutableNames {
		put(t, s, object(name, old))
		last := slices.Clone(old)
		last[len(last)-1] ^= 1
		for what, data := range map[string][]byte{
			"other": pattern("new", 300), "longer": append(slices.Clone(old), 0), "prefix": old[:299],
			"one bit": last, "empty": {}, "nil": nil,
		} {
			err := s.Put(t.Context(), object(name, data))
			wantErr(t, fmt.Sprintf("putting %s with %s bytes", name, what), err, storage.ErrChanged)
			holds(t, s, name, old)
		}
		err := s.Put(t.Context(), object("tile/0/009", []byte("9")), object(name, pattern("new", 10)), object("tile/0/010", []byte("10")))
		wantErr(t, "putting a changed "+name+" among others", err, storage.ErrChanged)
		holds(t, s, name, old)
		if err := s.Delete(t.Context(), "tile/0/009", "tile/0/010"); err != nil {
			t.Errorf("deleting: %v", err)
		}
	}
}

func storeChangedInOnePut(t testing.TB, s storage.Store) {
	one, two := pattern("one", 100), pattern("two", 100)
	err := s.Put(t.Context(), object("tile/0/000", one), object("tile/0/000", two))
	wantErr(t, "putting one immutable object twice with different bytes", err, storage.ErrChanged)
	got, err := s.Get(t.Context(), "tile/0/000")
	if errors.Is(err, storage.ErrNotFound) {
		return
	}
	noErr(t, "getting it", err)
	if string(got) != string(one) && string(got) != string(two) {
		t.Errorf("object is %s, which nobody put", brief(got))
	}
}

func storeReplaceMutable(t testing.TB, s storage.Store) {
	for _, name := range mutableNames {
		for i, n := range []int{100, 100, 5000, 1, 0, 70000, 3} {
			data := pattern(fmt.Sprint(name, i), n)
			put(t, s, object(name, data))
			holds(t, s, name, data)
		}
	}
}

func storeEmpty(t testing.TB, s storage.Store) {
	if err := s.Put(t.Context()); err != nil {
		t.Errorf("putting no objects: %v", err)
	}
	for i, name := range allNames() {
		data := [][]byte{nil, {}}[i%2]
		put(t, s, object(name, data))
		holds(t, s, name, nil)
		put(t, s, object(name, data))
	}
	err := s.Put(t.Context(), object("tile/0/000", []byte("x")))
	wantErr(t, "replacing an empty immutable object", err, storage.ErrChanged)
	holds(t, s, "tile/0/000", nil)
}

func storeLarge(t testing.TB, s storage.Store) {
	const size = 8 << 20
	a, b := pattern("a", size), pattern("b", size)
	put(t, s, object(stagingName(1), a), object("tile/data/000", b), object("checkpoint", a))
	holds(t, s, stagingName(1), a)
	holds(t, s, "tile/data/000", b)
	put(t, s, object("checkpoint", b), object("tile/data/000", b))
	holds(t, s, "checkpoint", b)
	changed := slices.Clone(a)
	changed[size-1] ^= 1
	wantErr(t, "putting a large object with one bit changed", s.Put(t.Context(), object(stagingName(1), changed)), storage.ErrChanged)
}

func storeMany(t testing.TB, s storage.Store) {
	var all []storage.Object
	for i := range 200 {
		for _, format := range []string{"tile/0/%03d", "tile/data/x001/%03d", "tile/names/x001/%03d.p/1"} {
			name := fmt.Sprintf(format, i)
			all = append(all, object(name, pattern(name, 10+i)))
		}
		all = append(all, object(issuerName(fmt.Sprint(i)), pattern(fmt.Sprint(i), 40)))
	}
	put(t, s, append(all, object("checkpoint", []byte("c")))...)
	holds(t, s, "checkpoint", []byte("c"))
	for _, o := range all {
		holds(t, s, o.Name, o.Data)
	}
}

func storeInvalidNames(t testing.TB, s storage.Store) {
	put(t, s, object("checkpoint", []byte("c")), object("tile/0/000", []byte("t")))
	for _, name := range invalidNames {
		err := s.Put(t.Context(), object(name, []byte("x")))
		wantErr(t, fmt.Sprintf("putting %q", name), err, storage.ErrInvalidName)
		err = s.Put(t.Context(), object("tile/0/001", []byte("1")), object(name, []byte("x")))
		wantErr(t, fmt.Sprintf("putting %q after a valid name", name), err, storage.ErrInvalidName)
		_, err = s.Get(t.Context(), name)
		wantErr(t, fmt.Sprintf("getting %q", name), err, storage.ErrInvalidName)
		err = s.Delete(t.Context(), name)
		wantErr(t, fmt.Sprintf("deleting %q", name), err, storage.ErrInvalidName)
	}
	for _, folder := range []string{"", "/", ".", "tile/", "tile/0/", "issuer", "staging", "/issuer/", "../", "issuer/../", "staging/../issuer/", "checkpoint"} {
		names, err := s.List(t.Context(), folder)
		wantErr(t, fmt.Sprintf("listing %q (got %q)", folder, names), err, storage.ErrInvalidName)
	}
	holds(t, s, "checkpoint", []byte("c"))
	holds(t, s, "tile/0/000", []byte("t"))
	for _, folder := range []string{"issuer/", "staging/"} {
		listed(t, s, folder)
	}
}

// listed checks that a folder has exactly these names.
func listed(t testing.TB, s storage.Store, folder string, want ...string) {
	t.Helper()
	got, err := s.List(t.Context(), folder)
	if err != nil {
		t.Errorf("listing %s: %v", folder, err)
		return
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("listing %s: got %q, want %q", folder, got, want)
	}
}

func storeList(t testing.TB, s storage.Store) {
	listed(t, s, "issuer/")
	listed(t, s, "staging/")
	var issuers, bundles []string
	for i := range 20 {
		issuers = append(issuers, issuerName(fmt.Sprint(i)))
		bundles = append(bundles, stagingName(i*37))
		put(t, s, object(issuers[i], []byte("i")), object(bundles[i], nil), object(fmt.Sprintf("tile/0/%03d", i), []byte("t")))
	}
	put(t, s, object("checkpoint", []byte("c")))
	listed(t, s, "issuer/", issuers...)
	listed(t, s, "staging/", bundles...)
	if err := s.Delete(t.Context(), bundles[3:]...); err != nil {
		t.Errorf("deleting bundles: %v", err)
	}
	listed(t, s, "staging/", bundles[:3]...)
	listed(t, s, "issuer/", issuers...)
	if err := s.Delete(t.Context(), bundles...); err != nil {
		t.Errorf("deleting bundles: %v", err)
	}
	listed(t, s, "staging/")
}

func storeDelete(t testing.TB, s storage.Store) {
	if err := s.Delete(t.Context()); err != nil {
		t.Errorf("deleting nothing: %v", err)
	}
	if err := s.Delete(t.Context(), allNames()...); err != nil {
		t.Errorf("deleting absent names: %v", err)
	}
	for _, name := range allNames() {
		put(t, s, object(name, []byte(name)))
	}
	for i, name := range allNames() {
		if err := s.Delete(t.Context(), name, "tile/3/000"); err != nil {
			t.Errorf("deleting %s and an absent one: %v", name, err)
		}
		lacks(t, s, name)
		for _, other := range allNames()[i+1:] {
			holds(t, s, other, []byte(other))
		}
	}
	// What was deleted may be written anew.
	put(t, s, object(stagingName(1000), []byte("other")))
	holds(t, s, stagingName(1000), []byte("other"))
}

// wholeOrAbsent checks that a name is absent or has one of the given values.
func wholeOrAbsent(t testing.TB, s storage.Store, name string, values ...[]byte) {
	t.Helper()
	got, err := s.Get(t.Context(), name)
	if errors.Is(err, storage.ErrNotFound) {
		return
	}
	noErr(t, "getting "+name, err)
	if !slices.ContainsFunc(values, func(v []byte) bool { return string(v) == string(got) }) {
		t.Errorf("%s is half-visible: %s", name, brief(got))
	}
}

func storeCancelled(t testing.TB, s storage.Store) {
	put(t, s, object("checkpoint", []byte("old")), object("tile/0/000", []byte("t")), object(stagingName(1), []byte("s")))
	ctx := cancelled(t)

	err := s.Put(ctx, object("checkpoint", []byte("new")), object("tile/0/001", pattern("1", 1000)))
	wantErr(t, "putting with a cancelled context", err, context.Canceled)
	wholeOrAbsent(t, s, "tile/0/001", pattern("1", 1000))
	got, err := s.Get(t.Context(), "checkpoint")
	noErr(t, "getting the checkpoint", err)
	if string(got) != "old" && string(got) != "new" {
		t.Errorf("checkpoint is half-replaced: %s", brief(got))
	}

	// Reads may succeed all the same, but a read that did not happen must not
	// look like an absence.
	if got, err := s.Get(ctx, "tile/0/000"); errors.Is(err, storage.ErrNotFound) || (err == nil && string(got) != "t") {
		t.Errorf("getting with a cancelled context: %s, %v", brief(got), err)
	}
	if names, err := s.List(ctx, "staging/"); err == nil && !slices.Equal(names, []string{stagingName(1)}) {
		t.Errorf("listing with a cancelled context: %q and no error", names)
	}
	wantErr(t, "deleting with a cancelled context", s.Delete(ctx, stagingName(1)), context.Canceled)
	wholeOrAbsent(t, s, stagingName(1), []byte("s"))
	holds(t, s, "tile/0/000", []byte("t"))
}
