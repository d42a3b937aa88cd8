package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/dptrain/dptrain/engine"
)

// A machine that fails is no fault of what was asked for, whatever was being done with it,
// and whatever the system calls it.
func TestFailedMachineIsNoWrongArgument(t *testing.T) {
	for number, failed := range map[syscall.Errno]bool{
		syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EIO: true, syscall.EROFS: true, syscall.EFBIG: true, syscall.EMFILE: true, syscall.ENFILE: true,
		112: runtime.GOOS == "windows", syscall.ENOENT: false, syscall.EACCES: false, syscall.ENOTDIR: false,
	} {
		err := error(&fs.PathError{Op: "write", Path: "x", Err: number})
		for _, err := range []error{asWrong(err), wrong("--out x: %w", err), asWrong(wrong("--out x: %w", err)), asFailed(wrong("--out x: %w", err))} {
			if got := exitCode(err) == exitFailed; got != failed {
				t.Errorf("%v: exit code %d", number, exitCode(err))
			}
		}
	}
}

// What a run that stopped has spent is in a ledger only where one is left.
func TestWhereSpent(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "ledger.jsonl")
	j := &job{config: engine.Config{Ledger: ledger}}
	if said := j.whereSpent(); !strings.HasSuffix(said, ", which said what was spent, is gone") {
		t.Error(said)
	}
	if err := os.WriteFile(ledger, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if said := j.whereSpent(); !strings.HasSuffix(said, " says what was spent") {
		t.Error(said)
	}
	j.config = engine.Config{NonPrivate: true}
	if said := j.whereSpent(); said != "" {
		t.Error(said)
	}
}
