package main

import (
	"bytes"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/rundir"
)

// A printed command can be copied into a shell.
func TestResult_QuotesPathsInCommands(t *testing.T) {
	for path, want := range map[string]string{
		"runs/2026-01-02_03-04-05.678": "runs/2026-01-02_03-04-05.678", "my run": "'my run'", `C:\runs\één`: `C:\runs\één`, "anna's (2)": `'anna'\''s (2)'`,
	} {
		if got := rundir.ShellQuote(path); got != want {
			t.Errorf("%s is quoted as %s, want %s", path, got, want)
		}
	}
	var b bytes.Buffer
	(&result{Private: true, Out: "my run", TestExamples: 3, dataDir: "my data"}).print(&b)
	for _, want := range []string{"dptrain eval 'my run' --data-dir 'my data'\n", "dptrain ledger epsilon 'my run/ledger.jsonl' "} {
		if !strings.Contains(filepath.ToSlash(b.String()), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}

// The targets of one example do not vary, so that R² is undefined and is not printed.
func TestResult_OneTestExample(t *testing.T) {
	var b bytes.Buffer
	(&result{Private: true, Unit: "microbatch:3", Target: "hours", TestExamples: 1, missed: &missed{RMSE: 2, MAE: 2, R2: number.Float(math.NaN())}}).print(&b)
	if out := b.String(); !strings.Contains(out, "RMSE\t2 (hours) on 1 public test example\nMAE\t2\nprivacy") || !strings.Contains(out, ", one microbatch of 3 examples,") {
		t.Error(out)
	}
}
