package ledger

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func readFile(t testing.TB, path string) *File {
	t.Helper()
	f, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// writeCopy writes the first size bytes of a ledger, or all if size is negative.
func writeCopy(t testing.TB, path string, size int) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if size < 0 {
		size = len(text)
	}
	to := filepath.Join(t.TempDir(), "ledger.jsonl")
	if err := os.WriteFile(to, text[:size], 0o644); err != nil {
		t.Fatal(err)
	}
	return to
}

// continueRun resumes a ledger for lots of which each is stated alone.
func continueRun(t testing.TB, path string, lot Lot, lots int) {
	t.Helper()
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	l.LimitReservations(0)
	spendLots(t, l, lot, lots)
	l.SetWeights(sha256.Sum256([]byte("the same weights")))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func jointLots(t testing.TB, paths ...string) int {
	t.Helper()
	var files []*File
	for _, p := range paths {
		files = append(files, readFile(t, p))
	}
	j, err := Join(files)
	if err != nil {
		t.Fatal(err)
	}
	return j.Lots
}

func relation(t testing.TB, a, b string) Relation {
	t.Helper()
	return Compare(readFile(t, a), readFile(t, b)).Relation
}

// The attack: a run directory is copied after 20 lots and both copies are resumed for 40
// more. Each ledger is valid and claims 60 lots; together they released 100.
func TestCompare_ForkAfterCopy(t *testing.T) {
	l, a := create(t)
	l.LimitReservations(0)
	spendLots(t, l, exampleLot(1), 20)
	l.Close()
	before := writeCopy(t, a, -1)
	b := writeCopy(t, a, -1)
	continueRun(t, a, exampleLot(1), 40)
	continueRun(t, b, exampleLot(1), 40)
	for _, path := range []string{a, b} {
		if s, err := Verify(path); err != nil || s.Lots != 60 || !s.Ended {
			t.Errorf("%+v, %v", s, err)
		}
	}
	fa, fb := readFile(t, a), readFile(t, b)
	if fa.Summary.Head == fb.Summary.Head {
		t.Error("the forks have the same head")
	}
	if c := Compare(fa, fb); c.Relation != Fork || c.CommonLots != 20 || c.Line != len(readFile(t, before).lines)+1 {
		t.Errorf("%+v", c)
	}
	if got := jointLots(t, a, b); got != 100 {
		t.Errorf("the forks released %d lots, want 100", got)
	}
	// Copies and earlier copies count once, in any order; a fork of a fork is found.
	c := writeCopy(t, b, -1)
	continueRun(t, c, exampleLot(1), 7)
	continueRun(t, b, exampleLot(1), 5)
	d := writeCopy(t, b, -1)
	for _, files := range [][]string{{a, b, c, d, before}, {before, d, c, b, a, a}, {c, before, a, d}} {
		if got := jointLots(t, files...); got != 20+40+40+7+5 {
			t.Errorf("%d lots, want 112", got)
		}
	}
	for _, test := range []struct {
		a, b string
		want Relation
	}{{a, a, Copy}, {b, d, Copy}, {before, a, Earlier}, {c, before, Later}, {b, c, Fork}, {a, c, Fork}} {
		if got := relation(t, test.a, test.b); got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
	// Another run with the same settings is unrelated.
	l, other := create(t)
	l.LimitReservations(0)
	spendLots(t, l, exampleLot(1), 20)
	l.Close()
	if got := relation(t, a, other); got != Unrelated {
		t.Error(got)
	}
	if got := jointLots(t, a, other, b); got != 60+20+45 {
		t.Errorf("%d lots, want 125", got)
	}
}

// A copy made at any byte while a run goes on is an earlier copy of it. Resumed, it is a fork,
// and the joint count is at least what both released.
func TestCompare_CopyAtAnyByte(t *testing.T) {
	l, a := create(t)
	reserveGreedily(l)
	spendLots(t, l, exampleLot(1), 5)
	spendLots(t, l, exampleLot(2), 4)
	l.Close()
	whole, _ := os.ReadFile(a)
	for size := bytes.IndexByte(whole, '\n') + 1; size < len(whole); size += 5 {
		b := writeCopy(t, a, size)
		want := Earlier
		if size == len(whole)-1 {
			want = Copy
		}
		if got := relation(t, b, a); got != want {
			t.Fatalf("a copy of %d bytes: %s", size, got)
		}
		if got := relation(t, a, b); got != Later && got != Copy {
			t.Fatalf("a copy of %d bytes, reversed: %s", size, got)
		}
		if got := jointLots(t, b, a); got != 9 {
			t.Fatalf("a copy of %d bytes: %d lots, want 9", size, got)
		}
		continueRun(t, b, exampleLot(1), 3)
		if got := relation(t, a, b); got != Fork {
			t.Fatalf("a fork at %d bytes: %s", size, got)
		}
		if got := jointLots(t, a, b); got < 12 {
			t.Fatalf("a fork at %d bytes: %d lots, and 12 were released", size, got)
		}
	}
}

// Interrupted passes of two runs are not one pass.
func TestJoin_ShuffledPasses(t *testing.T) {
	lot := Lot{Sampling{Policy: Shuffle, LotSize: 10, Records: 100}, []Query{{Group: "all", Mechanism: Gaussian, Sensitivity: 1, Noise: 4}}}
	l, a := create(t)
	l.LimitReservations(0)
	spendLots(t, l, lot, 4)
	l.Close()
	b := writeCopy(t, a, -1)
	continueRun(t, a, lot, 6)
	continueRun(t, b, lot, 6)
	l, other := create(t)
	l.LimitReservations(0)
	spendLots(t, l, lot, 5)
	l.Close()
	j, err := Join([]*File{readFile(t, a), readFile(t, b), readFile(t, other)})
	if err != nil {
		t.Fatal(err)
	}
	// One pass before the fork, one in each fork, and one of the other run.
	if j.Lots != 4+6+6+5 || j.History.LotCount() != 40 {
		t.Errorf("%d lots, accounted as %d of 4 passes of 10", j.Lots, j.History.LotCount())
	}
}

func TestJoin_Headers(t *testing.T) {
	write := func(h Header) *File {
		path := filepath.Join(t.TempDir(), "ledger.jsonl")
		l, err := Create(path, h)
		if err != nil {
			t.Fatal(err)
		}
		spendLots(t, l, exampleLot(1), 1)
		l.Close()
		return readFile(t, path)
	}
	a := write(Header{Unit: "example", Records: 9, Adjacency: AddRemove, Secure: true})
	b := write(Header{Unit: "example", Records: 7, Adjacency: ReplaceOne, Secure: true})
	c := write(Header{Unit: "example", Records: 11, Adjacency: ZeroOut})
	for _, files := range [][]*File{{a, b, c}, {c, b, a}, {b, c, a}} {
		j, err := Join(files)
		if err != nil || j.History.Header != (Header{5, "example", 11, ReplaceOne, false, ""}) || j.Lots != 3 {
			t.Errorf("%+v, %v", j, err)
		}
	}
	if j, err := Join([]*File{a, c}); err != nil || j.History.Header.Adjacency != ZeroOut {
		t.Errorf("%+v, %v", j, err)
	}
	if _, err := Join([]*File{a, write(Header{Unit: "user", Records: 9, Adjacency: AddRemove})}); err == nil || !strings.Contains(err.Error(), "unit") {
		t.Errorf("two units: %v", err)
	}
}
