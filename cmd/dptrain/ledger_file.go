package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/selection"
	"github.com/dptrain/dptrain/internal/modelfile"
)

// ledgerFile is a ledger that a command reads.
type ledgerFile struct {
	path      string
	history   ledger.History
	summary   ledger.Summary
	truncated bool // the last line is cut short
}

// findLedger returns the path of the ledger that the arguments name.
func findLedger(args []string) (string, error) {
	if len(args) != 1 {
		return "", exitcode.Usagef("name one ledger, such as runs/mnist/ledger.jsonl")
	}
	info, err := os.Stat(args[0])
	if errors.Is(err, fs.ErrNotExist) {
		return "", exitcode.Usagef("%s does not exist: check the path", args[0])
	}
	if err != nil {
		return "", exitcode.Usagef("%w", err)
	}
	if _, ok := selection.FindLedger(args[0]); ok {
		return "", exitcode.Usagef("%s is the ledger of a private selection, which has no lots: use dptrain ledger epsilon to account for it", args[0])
	}
	if !info.IsDir() {
		return args[0], nil
	}
	file := filepath.Join(args[0], rundir.LedgerFile)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", exitcode.Usagef("%s contains no %s: name a ledger or a run directory", args[0], rundir.LedgerFile)
	}
	return file, nil
}

// readLedger reads the ledger that the arguments name.
func readLedger(args []string) (f ledgerFile, err error) {
	if f.path, err = findLedger(args); err != nil {
		return f, err
	}
	if f.history, err = ledger.Read(f.path); err != nil {
		return f, err
	}
	// Verify rejects a ledger that Read accepts only if its last line is cut short.
	summary, damage := ledger.Verify(f.path)
	f.summary, f.truncated = summary, damage != nil
	return f, nil
}

// describeState describes how a ledger ends.
func describeState(ended, truncated bool) string {
	switch {
	case truncated:
		return "the last line is cut short; it counts as the most that it may have stated"
	case ended:
		return "ended"
	}
	return "not ended: the run was killed or is still running, or lines are missing at the end"
}

// readRunSummary returns the accountant and the ledger head in the run.json next to a ledger.
// Both are empty if there is none.
func readRunSummary(path string) (accountant, head string) {
	s, _ := rundir.Read(filepath.Dir(path))
	return s.Accountant, s.LedgerHead
}

// checkRunDirectory compares a run's ledger with the other files of the run. It returns an error if
// the ledger lacks the line with the hash head, or if the weights are not those that it states. An
// empty head is that of its last line when run.json was written. A run that was resumed later has
// more lines after it.
func checkRunDirectory(path, head string, found ledger.Summary) error {
	inRun := filepath.Base(path) == rundir.LedgerFile
	switch {
	case head != "" && head != found.Head:
		return &exitcode.Error{Code: exitcode.Damaged, Err: fmt.Errorf("%s: its head is %s, not %s: lines are missing or were added at its end, or it belongs to another run", path, found.Head, head)}
	case head == "" && inRun:
		if err := checkRunSummary(path); err != nil {
			return err
		}
	}
	if !inRun {
		return nil
	}
	return modelfile.VerifyWeights(filepath.Dir(path))
}

// checkRunSummary returns an error if a ledger lacks the line that the run.json next to it names.
func checkRunSummary(path string) error {
	_, head := readRunSummary(path)
	if head == "" {
		return nil
	}
	found, err := ledger.ContainsHead(path, head)
	if err == nil && !found {
		err = &exitcode.Error{Code: exitcode.Damaged, Err: fmt.Errorf("%s lacks the line with the hash %s, which the run.json next to it names as ledger_head: lines are missing at its end, or it belongs to another run", path, head)}
	}
	return err
}
