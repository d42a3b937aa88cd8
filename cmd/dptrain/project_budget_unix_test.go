//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/projectbudget"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
)

// The test kills runs that draw from a budget at random times, and resumes them. At every time the
// budget contains a draw for each run with a lot in its ledger, and is not exceeded. In the end
// it contains what the runs spent.
func TestProjectBudget_KilledRuns(t *testing.T) {
	kills := 3 // of each run
	if testing.Short() {
		kills = 1
	}
	openBudget(t, "3")
	const line = "train --ignore owner --model logistic --lot 200 --steps 150 --epsilon 1 --accountant rdp --quiet" + columns
	began := time.Now()
	if child, stderr := process(t, line+" --out whole"); child.Wait() != nil {
		t.Fatal(stderr)
	}
	took := time.Since(began)
	random := rand.New(rand.NewPCG(8, 9))
	spent := 0.0
	for _, dir := range []string{"first", "second"} {
		for killed := 0; ; {
			next := line + " --budget people.budget --out " + dir
			if _, err := os.Stat(filepath.Join(dir, rundir.ConfigFile)); err == nil {
				next = "train --quiet --resume " + dir
			}
			child, stderr := process(t, next)
			wait := time.Duration(random.Int64N(int64(took)))
			if killed >= kills {
				wait = time.Hour
			}
			timer := time.AfterFunc(wait, func() { child.Process.Kill() })
			err := child.Wait()
			timer.Stop()
			checkDraws(t, dir)
			if err == nil {
				break
			}
			if killed++; stderr.Len() > 0 {
				t.Fatalf("killed, with output %s", stderr)
			}
		}
		var run struct{ Epsilon float64 }
		if err := json.Unmarshal(readFile(t, dir+"/run.json"), &run); err != nil {
			t.Fatal(err)
		}
		spent += run.Epsilon
	}
	if got := epsilonLeft(t); math.Abs(got-(3-spent)) > 1e-9 {
		t.Errorf("%v is left after runs of %v", got, spent)
	}
}

// checkDraws checks that the budget covers the ledger of a run, and that it is not exceeded.
func checkDraws(t *testing.T, dir string) {
	t.Helper()
	b, err := projectbudget.Read("people.budget")
	if err != nil {
		t.Fatal(err)
	}
	if h, err := ledger.Read(filepath.Join(dir, "ledger.jsonl")); err == nil && h.LotCount() > 0 {
		covered := false
		for _, d := range b.Draws {
			covered = covered || d.Run == h.Header.Run && (d.Epsilon == 1 || d.Settled)
		}
		if !covered {
			t.Fatalf("%s has %d lots in its ledger, and the budget has %+v", dir, h.LotCount(), b.Draws)
		}
	}
	if left, _ := b.Left(); left < 1 {
		t.Fatalf("ε = %v is left of 3 for two runs of 1: %+v", left, b.Draws)
	}
}

// A run is not recorded while it is running, nor after it was killed, and cannot be resumed with a
// smaller plan then. An early copy of the run, without lots, draws on its own.
func TestProjectBudget_RunningRun(t *testing.T) {
	openBudget(t, "9")
	child, stderr := process(t, "train --ignore owner --model logistic --lot 200 --steps 100000 --noise 40 --delta 1e-6 --accountant rdp --quiet --budget people.budget --out run"+columns)
	for {
		if h, err := ledger.Read("run/ledger.jsonl"); err == nil && h.LotCount() > 20 {
			break
		}
		if stderr.Len() > 0 {
			t.Fatal(stderr)
		}
		time.Sleep(5 * time.Millisecond)
	}
	left := epsilonLeft(t)
	spend := func(when string) {
		t.Helper()
		checkRefused(t, "budget spend people.budget run --delta 1e-6", exitcode.Usage, "has not ended")
		if got := epsilonLeft(t); got != left || !(left < 9) {
			t.Errorf("%s: %v is left, before %v", when, got, left)
		}
	}
	spend("running")
	child.Process.Kill()
	child.Wait()
	spend("killed")
	checkRefused(t, "train --resume run --steps 30000", exitcode.Usage, "planned with 100000")
	checkRefused(t, "train --resume run --epsilon 1.5", exitcode.Usage, "planned with 100000")

	copyFolder(t, "run", "early")
	if err := os.RemoveAll("early/checkpoint"); err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfterN(readFile(t, "early/ledger.jsonl"), []byte("\n"), 3)
	if err := os.WriteFile("early/ledger.jsonl", bytes.Join(lines[:2], nil), 0o644); err != nil {
		t.Fatal(err)
	}
	child, stderr = process(t, "train --quiet --resume early")
	for len(runJSON(t, "budget left people.budget")["draws"].([]any)) < 2 {
		if stderr.Len() > 0 {
			t.Fatal(stderr)
		}
		time.Sleep(5 * time.Millisecond)
	}
	child.Process.Kill()
	child.Wait()
	if got := epsilonLeft(t); math.Abs(got-(9-2*(9-left))) > 1e-5 {
		t.Errorf("%v is left after two draws, and %v after one", got, left)
	}
}
