package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// runFixture describes a run's directory.
type runFixture struct {
	header  ledger.Header
	lots    []ledger.RepeatedLot
	summary map[string]any
	metrics string
	head    string // of the ledger that was written last
}

// lot is a Poisson lot from 60000 records, with one group for each pair of S and σ.
func lot(pairs ...float64) ledger.Lot {
	l := ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 0.01, Records: 60000}}
	for i := 0; i < len(pairs); i += 2 {
		l.Queries = append(l.Queries, ledger.Query{Group: []string{"convolutions", "dense", "counts"}[i/2],
			Mechanism: ledger.Gaussian, Sensitivity: pairs[i], Noise: pairs[i+1]})
	}
	return l
}

// newFixture is a private run of 1000 lots.
func newFixture() *runFixture {
	return &runFixture{
		header: ledger.Header{Unit: "example", Records: 60000, Adjacency: ledger.AddRemove, Secure: true},
		lots:   []ledger.RepeatedLot{{Lot: lot(1, 1.1), Count: 1000}},
		summary: map[string]any{
			"private": true, "accountant": "pld", "delta": 1e-5, "unit": "example", "sampling": "poisson",
			"records": 60000, "expected_lot": 600, "rate": 0.01, "steps": 1000, "data": "/home/anna/secret-study/mnist", "task": "image-classification",
			"model": "digits-cnn", "parameters": 26010, "test_accuracy": 0.95, "test_loss": 0.2, "test_examples": 100, "test_labels": 100,
			"confusion": [][]int{{50, 3}, {2, 45}}, "class_names": []string{"cat", "dog"}, "clipping": "flat", "clip": 1,
			"optimizer": "momentum", "learning_rate": 0.5, "schedule": "constant", "microbatch": 120, "device": "cpu", "threads": 2,
			"platform": "linux/amd64", "seconds": 83.4, "examples_per_second": 7194.2, "version": "v1.0.0", "finished": "2026-03-01T10:00:00Z",
		},
		metrics: `{"lot":500,"test_accuracy":0.9}` + "\n" + `{"lot":1000,"test_accuracy":0.95}` + "\n",
	}
}

// newShortFixture is a run of 3 lots, whose report takes little time.
func newShortFixture() *runFixture {
	s := newFixture()
	s.lots[0].Count, s.summary["steps"] = 3, 3
	return s
}

// write writes the directory.
func (s *runFixture) write(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if s.summary["private"] == true {
		path := filepath.Join(dir, "ledger.jsonl")
		l, err := ledger.Create(path, s.header)
		must(err)
		for _, spent := range s.lots {
			for range spent.Count {
				must(l.Spend(spent.Lot))
			}
		}
		must(l.Close())
		if head := s.summary["ledger_head"]; head == nil || head == s.head {
			s.head = l.Head()
			s.summary["ledger_head"] = s.head
		}
	}
	text, err := json.Marshal(s.summary)
	must(err)
	must(os.WriteFile(filepath.Join(dir, "run.json"), text, 0o644))
	if s.metrics != "" {
		must(os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(s.metrics), 0o644))
	}
	return dir
}

// render writes the directory and returns its page and its card.
func (s *runFixture) render(t *testing.T) (page, card string) {
	t.Helper()
	run, err := Open(s.write(t))
	if err != nil {
		t.Fatal(err)
	}
	p, err := run.Page()
	if err != nil {
		t.Fatal(err)
	}
	c, err := run.Card()
	if err != nil {
		t.Fatal(err)
	}
	return string(p), string(c)
}

// requireContains fails if text lacks a piece.
func requireContains(t *testing.T, what, text string, pieces ...string) {
	t.Helper()
	for _, piece := range pieces {
		if !strings.Contains(text, piece) {
			t.Errorf("%s lacks %q", what, piece)
		}
	}
}

// requireLacks fails if text contains a piece.
func requireLacks(t *testing.T, what, text string, pieces ...string) {
	t.Helper()
	for _, piece := range pieces {
		if strings.Contains(text, piece) {
			t.Errorf("%s contains %q", what, piece)
		}
	}
}
