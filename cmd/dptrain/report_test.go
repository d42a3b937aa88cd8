package main

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/training"
)

// readReports reads the report and the model card of a run.
func readReports(t *testing.T, dir string) [2][]byte {
	t.Helper()
	return [2][]byte{readFile(t, filepath.Join(dir, "report.html")), readFile(t, filepath.Join(dir, "MODEL_CARD.md"))}
}

// A run writes a report, a model card and TensorBoard events. dptrain report writes the first two
// again with the same bytes. None of them contains the seed of a seeded run.
func TestReport(t *testing.T) {
	inWorkshop(t)
	const seed = "987654321987"
	runJSON(t, brief+" --steps 7 --noise 2 --delta 1e-5 --optimizer adam --lr 0.125 --seed "+seed+" --out run")
	first := readReports(t, "run")
	for _, text := range first {
		for _, piece := range []string{"logistic", "people.csv", "adam", "0.125", "INSECURE", "one training example", "10⁻⁵", "cpu", "200", "accuracy"} {
			if !bytes.Contains(text, []byte(piece)) {
				t.Errorf("%q is missing in\n%.200s", piece, text)
			}
		}
		if bytes.Contains(text, []byte(seed)) {
			t.Errorf("the seed is in\n%.200s", text)
		}
	}
	if !bytes.Contains(first[0], []byte(`<table class="confusion"`)) {
		t.Error("the page has no confusion matrix")
	}
	events, _ := filepath.Glob("run/tensorboard/*tfevents*")
	if len(events) != 1 {
		t.Fatalf("%d event files", len(events))
	}
	curves := readFile(t, events[0])
	// The test set of 400 examples is evaluated after every second lot of 200, and at the end.
	for tag, want := range map[string]int{"test/accuracy": 4, "test/loss": 4, "privacy/epsilon": 7, "learning_rate": 7} {
		if n := bytes.Count(curves, []byte(tag)); n != want {
			t.Errorf("%s has %d points, want %d", tag, n, want)
		}
	}

	os.Remove("run/report.html")
	if v := runJSON(t, "report run"); len(v["files"].([]any)) != 2 {
		t.Errorf("report prints %v", v)
	}
	if again := readReports(t, "run"); !bytes.Equal(again[0], first[0]) || !bytes.Equal(again[1], first[1]) {
		t.Error("report and train write different files")
	}

	// A run that was resumed and did not end has a valid ledger with more lines.
	before := readFile(t, "run/run.json")
	runJSON(t, "train --resume run --steps 8")
	after := readFile(t, "run/run.json")
	if err := os.WriteFile("run/run.json", before, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := dptrain("report run"); code != exitcode.Usage || !strings.Contains(stderr, "the run was resumed") {
		t.Errorf("a run that was resumed: exit %d, %s", code, stderr)
	}
	if err := os.WriteFile("run/run.json", after, 0o644); err != nil {
		t.Fatal(err)
	}

	ledger := readFile(t, "run/ledger.jsonl")
	for _, test := range []struct {
		line, ledger string
		code         int
		want         string
	}{
		{"report", string(ledger), exitcode.Usage, "one run directory"},
		{"report nowhere", string(ledger), exitcode.Usage, "nowhere contains no run.json"},
		{"report run", strings.Replace(string(ledger), `"noise":2`, `"noise":9`, 1), exitcode.Damaged, "line 2"},
		{"report run", writeLedger(t, 7), exitcode.Damaged, "summary names"},
	} {
		if err := os.WriteFile("run/ledger.jsonl", []byte(test.ledger), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, stderr, code := dptrain(test.line); code != test.code || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: exit %d, %s", test.line, code, stderr)
		}
	}
}

// writeLedger returns a valid ledger of another run.
func writeLedger(t *testing.T, lots int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l, err := ledger.Create(path, ledger.Header{Unit: "example", Records: 40000, Adjacency: ledger.AddRemove, Secure: true})
	if err != nil {
		t.Fatal(err)
	}
	for range lots {
		if err := l.Spend(ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 0.005},
			Queries: []ledger.Query{{Group: "all", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 3}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	text := readFile(t, path)
	return string(text)
}

// The ε of a lot in metrics.jsonl is never less than the cost of the lots so far.
func TestMetrics_EpsilonIsNotLess(t *testing.T) {
	inWorkshop(t)
	runJSON(t, brief+" --steps 60 --lr 0.5 --noise 2 --delta 1e-5 --out run")
	text := readFile(t, "run/metrics.jsonl")
	lines := 0
	for line := range bytes.Lines(text) {
		var p struct {
			Lot     int
			Epsilon float64
			Rate    float64 `json:"learning_rate"`
		}
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatal(err)
		}
		plan := accountant.Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 200. / 4000, Records: 4000}, Steps: p.Lot, Noise: 2, Adjacency: ledger.AddRemove}
		cost, err := accountant.Epsilon(plan.History(), 1e-5, "rdp")
		if err != nil {
			t.Fatal(err)
		}
		if p.Rate != 0.5 {
			t.Errorf("lot %d: learning rate %v", p.Lot, p.Rate)
		}
		if p.Epsilon < cost.Epsilon*(1-1e-12) {
			t.Errorf("lot %d: ε is %v, but %v was spent", p.Lot, p.Epsilon, cost.Epsilon)
		}
		lines++
	}
	if lines != 10 {
		t.Errorf("%d lines, want 10", lines)
	}
}

// A run writes every key of metrics.jsonl that the report reads. A key that only one of the two renamed
// would be shown as missing.
func TestReport_ReadsWrittenKeys(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("internal", "report", "run.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]bool{}
	addKeys(written, reflect.TypeFor[training.MetricsEntry]())
	read := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if s, is := n.(*ast.TypeSpec); is && s.Name.Name != "metricPoint" {
			return false
		}
		if f, is := n.(*ast.Field); is && f.Tag != nil {
			read++
			if k := key(strings.Trim(f.Tag.Value, "`")); !written[k] {
				t.Errorf("the report reads %q, which no run writes", k)
			}
		}
		return true
	})
	if read < 2 {
		t.Errorf("%d keys were found", read)
	}
}

// addKeys adds the keys of a struct and of the structs embedded in it.
func addKeys(keys map[string]bool, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		keys[key(string(f.Tag))] = true
		if f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct {
			addKeys(keys, f.Type.Elem())
		}
	}
}

// key is the name of a field in JSON.
func key(tag string) string {
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	return name
}
