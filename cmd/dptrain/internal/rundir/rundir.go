// Package rundir reads and writes the directory of a run.
//
// One process at a time writes a run: [Create] and [Reopen] lock the directory.
package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/host/atomicfile"
	"github.com/dptrain/dptrain/internal/host/lock"
	"github.com/dptrain/dptrain/internal/modelfile"
)

// The files of a run.
const (
	ConfigFile    = "config.yaml" // the run's settings, which --resume reads
	SummaryFile   = "run.json"
	LedgerFile    = "ledger.jsonl"
	MetricsFile   = "metrics.jsonl"
	ReportFile    = "report.html"
	CardFile      = "MODEL_CARD.md"
	SelectionFile = "selection.json" // the ledger of a private selection
	CheckpointDir = "checkpoint"
	EventsDir     = "tensorboard"

	// TrialsDir contains what the trials of a private selection write. It is removed
	// when the selection ends.
	TrialsDir = ".runs"

	// LockFile is locked by the process that writes the run. The lock ends with the
	// process, so a killed process leaves an empty file that blocks no other.
	LockFile = ".lock"
)

// Files lists the files that export and predict must not replace.
var Files = []string{ConfigFile, SelectionFile, SummaryFile, LedgerFile, MetricsFile,
	modelfile.WeightsFile, modelfile.ManifestFile, ReportFile, CardFile}

// NameByTime returns the path of a directory in parent, named after the current time.
func NameByTime(parent string) string {
	return filepath.Join(parent, time.Now().Format("2006-01-02_15-04-05.000"))
}

// Create makes and locks the directory of a new run until release is called. It refuses
// a directory that contains a run: its ledger records what was spent. If Create made the
// directory and nothing was written to it, release removes it.
func Create(dir string) (release func(), err error) {
	return open(dir, "--out", checkUnused)
}

// Reopen locks the directory of an existing run until release is called.
func Reopen(dir string) (release func(), err error) {
	return open(dir, "--resume", func(string) error { return nil })
}

func open(dir, flag string, check func(dir string) error) (release func(), err error) {
	if err := check(dir); err != nil {
		return nil, err
	}
	_, err = os.Stat(dir)
	created := errors.Is(err, os.ErrNotExist)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, exitcode.Usagef("--out %s: %w", dir, err)
	}
	unlock, err := Lock(dir)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, dir, err)
	}
	release = func() {
		unlock()
		if created {
			os.Remove(dir) // fails unless the directory is empty
		}
	}
	if err := check(dir); err != nil { // another process may have started a run before Lock returned
		release()
		return nil, err
	}
	return release, nil
}

// checkUnused refuses a directory that contains a run.
func checkUnused(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, SelectionFile)); err == nil {
		return refuseSelection(dir)
	}
	for _, name := range []string{ConfigFile, SummaryFile, LedgerFile, modelfile.WeightsFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return exitcode.Usagef("--out %s already contains a run (%s): choose another directory, or continue the run with --resume %s", dir, name, ShellQuote(dir))
		}
	}
	return nil
}

// refuseSelection refuses a directory that contains a private selection. If the selection
// was killed, refuseSelection removes what is left of its trials: their number is secret.
func refuseSelection(dir string) error {
	trials := filepath.Join(dir, TrialsDir)
	if _, err := os.Stat(trials); err != nil {
		return exitcode.Usagef("--out %s already contains a selection on private data (%s): choose another directory", dir, SelectionFile)
	}
	unlock, err := Lock(dir)
	if err == nil {
		defer unlock()
		err = os.RemoveAll(trials)
	}
	if err != nil {
		return fmt.Errorf("--out %s: %w", dir, err)
	}
	return exitcode.Usagef("--out %s contains a selection that was killed (%s): the rest of its trials is now removed, and its budget stays spent; choose another directory", dir, SelectionFile)
}

// Lock locks an existing directory for this process.
func Lock(dir string) (unlock func(), err error) {
	path := filepath.Join(dir, LockFile)
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		if err := lock.TryLock(file); err != nil {
			file.Close()
			if errors.Is(err, lock.ErrLocked) {
				return nil, exitcode.Usagef("another dptrain process is writing there: wait until it ends")
			}
			return nil, err
		}
		locked, err := file.Stat()
		if err != nil {
			file.Close()
			return nil, err
		}
		if current, err := os.Stat(path); err == nil && os.SameFile(locked, current) {
			return func() { unlockDir(file, path) }, nil
		}
		file.Close() // its last owner removed the file before it released the lock
	}
}

// unlockDir removes the lock file while the lock excludes other processes. Windows does
// not remove an open file, so there unlockDir removes it after closing it.
func unlockDir(file *os.File, path string) {
	err := os.Remove(path)
	file.Close()
	if err != nil {
		os.Remove(path)
	}
}

// RemoveUnfinished removes files that a crash left unfinished.
func RemoveUnfinished(dir string) {
	entries, _ := os.ReadDir(dir) // an unreadable directory has nothing to remove
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), atomicfile.TemporaryPrefix) {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// SetTimes gives a directory and all entries in it one time of modification and of access. It
// ignores a directory that does not exist.
func SetTimes(dir string, t time.Time) error {
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, t, t)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ShellQuote quotes a path for a command line that a message suggests.
func ShellQuote(path string) string {
	if !strings.ContainsAny(path, " \t\n'\"`$&|;<>()*?[]{}#!") {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
