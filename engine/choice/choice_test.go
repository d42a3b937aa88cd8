package choice

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/noise"
)

func newLedger(t *testing.T, adjacency ledger.Adjacency) (path string, w *ledger.Writer) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ledger.jsonl")
	w, err := ledger.Create(path, ledger.Header{Unit: "example", Records: 100, Adjacency: adjacency, Secure: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return path, w
}

func newChooser(t *testing.T, w *ledger.Writer) *Chooser {
	t.Helper()
	source, err := noise.New()
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(w, source)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The ledger states each choice, on disk before it is made, at a cost of at most its ε and close to
// it, under each adjacency; several choices cost the sum.
func TestChoose_LedgerStatesCost(t *testing.T) {
	for _, adjacency := range []ledger.Adjacency{ledger.AddRemove, ledger.ZeroOut, ledger.ReplaceOne} {
		path, w := newLedger(t, adjacency)
		c := newChooser(t, w)
		total := 0.0
		for i, q := range []Query{
			{"first", []int64{3, 9, 4}, 1, 0.3},
			{"second", []int64{-7}, 5, 1.7},
			{"third", []int64{math.MinInt64, math.MaxInt64}, 1000, 0.011},
			{"third", []int64{math.MinInt64, math.MaxInt64}, 1000, 0.011},
		} {
			at, err := c.Choose(q)
			if err != nil || at < 0 || at >= len(q.Scores) {
				t.Fatalf("%s: %d, %v", q.Name, at, err)
			}
			total += q.Epsilon
			h, err := ledger.Read(path)
			if err != nil || h.LotCount() != i+1 {
				t.Fatalf("the ledger contains %d choices, want %d; %v", h.LotCount(), i+1, err)
			}
			for _, name := range []string{"pld", "naive"} {
				g, err := accountant.Epsilon(h, 1e-15, name)
				if err != nil || !(g.Epsilon <= total*(1+1e-9) && g.Epsilon >= total*(1-1e-4)) {
					t.Errorf("%s, %s: ε = %v, want %v; %v", adjacency, name, g.Epsilon, total, err)
				}
			}
		}
	}
}

// A candidate whose score is far above the others is chosen, and choices of one chooser differ.
func TestChoose_UsesScores(t *testing.T) {
	_, w := newLedger(t, ledger.ZeroOut)
	c := newChooser(t, w)
	counts := [3]int{}
	for range 60 {
		at, err := c.Choose(Query{"far", []int64{0, 1000, 10}, 1, 1})
		if err != nil || at != 1 { // another has a probability below e^-400
			t.Fatalf("candidate %d, %v", at, err)
		}
		if at, err = c.Choose(Query{"equal", []int64{5, 5, 5}, 1, 1}); err != nil {
			t.Fatal(err)
		}
		counts[at]++
	}
	for at, n := range counts {
		if n == 0 { // has a probability of 3·(2/3)^60 < 1e-10
			t.Errorf("candidate %d was never chosen", at)
		}
	}
}

func TestChoose_Refuses(t *testing.T) {
	path, w := newLedger(t, ledger.ZeroOut)
	c := newChooser(t, w)
	for want, q := range map[string]Query{
		"has no name":                         {"", []int64{1}, 1, 1},
		"has no candidates":                   {"q", nil, 1, 1},
		"the sensitivity 0":                   {"q", []int64{1}, 0, 1},
		"the sensitivity -1":                  {"q", []int64{1}, -1, 1},
		"the sensitivity 1025: use 1 to 1024": {"q", []int64{1}, 1025, 1},
		"ε = 0":                               {"q", []int64{1}, 1, 0},
		"ε = NaN":                             {"q", []int64{1}, 1, math.NaN()},
		"ε = +Inf":                            {"q", []int64{1}, 1, math.Inf(1)},
		"ε = -1":                              {"q", []int64{1}, 1, -1},
	} {
		if _, err := c.Choose(q); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if h, err := ledger.Read(path); err != nil || h.LotCount() != 0 {
		t.Errorf("refused queries cost %d choices, %v", h.LotCount(), err)
	}
	w.Close()
	if _, err := c.Choose(Query{"q", []int64{1}, 1, 1}); err == nil {
		t.Error("a choice was made without a ledger")
	}
}

// A seeded source marks the ledger.
func TestNew_SeedMarksLedger(t *testing.T) {
	path, w := newLedger(t, ledger.ZeroOut)
	if _, err := New(w, noise.NewSeeded(1)); err != nil {
		t.Fatal(err)
	}
	if h, err := ledger.Read(path); err != nil || h.Header.Secure {
		t.Errorf("the ledger is secure: %v, %v", h.Header.Secure, err)
	}
}
