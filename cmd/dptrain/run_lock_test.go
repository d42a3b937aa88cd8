package main

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
)

// While a process writes a run, another process can neither start a run in its directory nor
// resume it, and does not change its files.
func TestRunLock_ExcludesOtherProcesses(t *testing.T) {
	inWorkshop(t)
	line := brief + " --steps 4 --noise 1 --delta 1e-5 --out run"
	if err := os.Mkdir("run", 0o755); err != nil {
		t.Fatal(err)
	}
	refused := func(line, flag string) {
		t.Helper()
		unlock, err := rundir.Lock("run")
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		if err := os.WriteFile("run/.new-1", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		before := files(t, "run")
		_, stderr, code := dptrain(line)
		if code != exitcode.Usage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, flag+" run: another dptrain process is writing there") {
			t.Errorf("%s: exit %d, %s", line, code, stderr)
		}
		if got := files(t, "run"); got != before {
			t.Errorf("%s: the directory contained %s, and now %s", line, before, got)
		}
	}
	refused(line, "--out")
	refused(selecting+" --out run", "--out")
	runJSON(t, line)
	if got := files(t, "run"); strings.Contains(got, rundir.LockFile) || strings.Contains(got, ".new-") {
		t.Errorf("left are %s", got)
	}
	refused("train --resume run --steps 6", "--resume")
	runJSON(t, "train --resume run --steps 6")

	// A killed process leaves the file, but not the lock.
	if err := os.WriteFile("run/"+rundir.LockFile, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	runJSON(t, "train --resume run --steps 8")
	if got := files(t, "run"); strings.Contains(got, rundir.LockFile) {
		t.Errorf("left are %s", got)
	}
}

// If several runs start in one directory at once, one of them runs and is complete.
func TestRunLock_ConcurrentStarts(t *testing.T) {
	inWorkshop(t)
	for round := range 5 {
		dir := "run" + string(rune('0'+round))
		var all sync.WaitGroup
		var mu sync.Mutex
		done := 0
		for range 4 {
			all.Go(func() {
				_, stderr, code := dptrain(brief + " --quiet --steps 4 --noise 1 --delta 1e-5 --out " + dir)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case code == exitcode.Done:
					done++
				case code != exitcode.Usage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "another dptrain process is writing there") && !strings.Contains(stderr, "already contains a run"):
					t.Errorf("exit %d, %s", code, stderr)
				}
			})
		}
		all.Wait()
		report, err := ledger.Verify(dir + "/ledger.jsonl")
		if done != 1 || err != nil || report.Lots != 4 {
			t.Fatalf("%d runs, a ledger of %+v, %v", done, report, err)
		}
		runJSON(t, "train --resume "+dir+" --steps 5")
	}
}
