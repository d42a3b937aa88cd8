package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dptrain/dptrain/internal/rundir"
)

// What takes long says so, once and before it ends; what does not says nothing.
func TestPatience(t *testing.T) {
	for took, want := range map[time.Duration]string{patience / 2: "", 2 * patience: "Reading people.csv …\n"} {
		synctest.Test(t, func(t *testing.T) {
			var said bytes.Buffer
			got, err := patiently(&screen{err: &said}, "Reading people.csv", func() (int, error) {
				time.Sleep(took)
				return 7, io.EOF
			})
			if got != 7 || err != io.EOF || said.String() != want {
				t.Errorf("%v: %d, %v, and said %q", took, got, err, said.String())
			}
		})
	}
}

// A command that is shown is one that can be copied.
func TestPathsInCommands(t *testing.T) {
	for path, want := range map[string]string{
		"runs/2026-01-02_03-04-05.678": "runs/2026-01-02_03-04-05.678", "my run": "'my run'", `C:\runs\één`: `C:\runs\één`, "anna's (2)": `'anna'\''s (2)'`,
	} {
		if got := rundir.ShellQuote(path); got != want {
			t.Errorf("%s is typed as %s, want %s", path, got, want)
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

// Of one target nothing varies that an R² could be a share of.
func TestOneTestExample(t *testing.T) {
	var b bytes.Buffer
	(&result{Private: true, Unit: "microbatch:3", Target: "hours", TestExamples: 1, missed: &missed{RMSE: 2, MAE: 2, R2: number(math.NaN())}}).print(&b)
	if out := b.String(); !strings.Contains(out, "RMSE\t2 (hours) on 1 public test example\nMAE\t2\nprivacy") || !strings.Contains(out, ", one microbatch of 3 examples,") {
		t.Error(out)
	}
}

func TestNoNumbersInJSON(t *testing.T) {
	b, err := json.Marshal([]number{1.5, number(math.Inf(1)), number(math.NaN())})
	if err != nil || string(b) != `[1.5,"Infinity",null]` {
		t.Errorf("%s, %v", b, err)
	}
}
