package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/engine"
)

// A printed command can be copied into a shell.
func TestWriteSummary_QuotesPathsInCommands(t *testing.T) {
	for path, want := range map[string]string{
		"runs/2026-01-02_03-04-05.678": "runs/2026-01-02_03-04-05.678", "my run": "'my run'", `C:\runs\één`: `C:\runs\één`, "anna's (2)": `'anna'\''s (2)'`,
	} {
		if got := rundir.ShellQuote(path); got != want {
			t.Errorf("%s is quoted as %s, want %s", path, got, want)
		}
	}
	var b bytes.Buffer
	writeSummary(&b, &rundir.Summary{Private: true, Out: "my run", TestExamples: 3}, "my data")
	for _, want := range []string{"dptrain eval 'my run' --data-dir 'my data'\n", "dptrain ledger epsilon 'my run/ledger.jsonl' "} {
		if !strings.Contains(filepath.ToSlash(b.String()), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}

// The targets of one example do not vary, so that R² is undefined and is not printed.
func TestWriteSummary_OneTestExample(t *testing.T) {
	var b bytes.Buffer
	writeSummary(&b, &rundir.Summary{Private: true, Unit: "microbatch:3", Target: "hours", TestExamples: 1, RegressionMetrics: &rundir.RegressionMetrics{RMSE: 2, MAE: 2, R2: number.Float(math.NaN())}}, "")
	if out := b.String(); !strings.Contains(out, "RMSE\t2 (hours) on 1 public test example\nMAE\t2\nprivacy") || !strings.Contains(out, ", one microbatch of 3 examples,") {
		t.Error(out)
	}
}

// A run that failed names its ledger, if there is one.
func TestLedgerHint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.jsonl")
	c := &engine.Config{Files: engine.Files{Ledger: file}}
	if hint := ledgerHint(c); !strings.HasSuffix(hint, ", which recorded the cost, is missing") {
		t.Error(hint)
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if hint := ledgerHint(c); !strings.HasSuffix(hint, " states the cost so far") {
		t.Error(hint)
	}
	if hint := ledgerHint(&engine.Config{Mechanism: engine.Mechanism{NonPrivate: true}}); hint != "" {
		t.Error(hint)
	}
}

// Without public test data the bare summary has the result on private records held out.
func TestBareSummary(t *testing.T) {
	half, hours := 0.5, 2.25
	for _, c := range []struct {
		want    string
		summary rundir.Summary
	}{
		{"0.7500 2", rundir.Summary{TestAccuracy: 0.75, TestLabels: 4, Validation: &rundir.Validation{Accuracy: &half}}},
		{"0.5000 2", rundir.Summary{TestAccuracy: number.Float(math.NaN()), Validation: &rundir.Validation{Accuracy: &half}}},
		{"2.25 2", rundir.Summary{TestAccuracy: number.Float(math.NaN()), Validation: &rundir.Validation{MAE: &hours}}},
		{"3 2", rundir.Summary{TestAccuracy: number.Float(math.NaN()), RegressionMetrics: &rundir.RegressionMetrics{RMSE: 3}, Validation: &rundir.Validation{MAE: &hours}}},
		{"- 2", rundir.Summary{TestAccuracy: number.Float(math.NaN())}},
	} {
		c.summary.Epsilon = 2
		if got := bareSummary(&c.summary); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
