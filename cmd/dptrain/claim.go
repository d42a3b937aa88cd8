package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dptrain/dptrain/internal/atomicfile"
	"github.com/dptrain/dptrain/internal/lock"
)

// lockFile is what the process that writes a run holds in its folder. A lock ends with
// its process, so one that was killed leaves an empty file and hinders nobody.
const lockFile = ".lock"

// claim has the run's folder to itself until release, and makes it where it was not
// there. A folder that holds a run is not begun again: its ledger is the record of
// what was spent. One that was made, and not written into, goes on release.
func (j *job) claim() (release func(), err error) {
	flag, fit := "--out", j.unused
	if j.set.resume != "" {
		flag, fit = "--resume", func() error { return nil }
	}
	if err := fit(); err != nil {
		return nil, err
	}
	_, err = os.Stat(j.out)
	fresh := errors.Is(err, os.ErrNotExist)
	if err := os.MkdirAll(j.out, 0o755); err != nil {
		return nil, wrong("--out %s: %w", j.out, err)
	}
	unlock, err := lockFolder(j.out)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, j.out, err)
	}
	release = func() {
		unlock()
		if fresh {
			os.Remove(j.out) // only if it is empty
		}
	}
	if err := fit(); err != nil { // one that began before the lock was had
		release()
		return nil, err
	}
	return release, nil
}

// unused refuses a folder that holds a run.
func (j *job) unused() error {
	if _, err := os.Stat(filepath.Join(j.out, selectionFile)); err == nil {
		return j.choiceThere()
	}
	for _, name := range []string{configFile, "run.json", "ledger.jsonl", weightsFile} {
		if _, err := os.Stat(filepath.Join(j.out, name)); err == nil {
			return wrong("--out %s already holds a run (%s): choose another folder, or go on with it by --resume %s", j.out, name, asTyped(j.out))
		}
	}
	return nil
}

// choiceThere refuses a folder that holds a choice on private data. Of one that was
// killed it removes what is left of the runs: nobody may know how many there were.
func (j *job) choiceThere() error {
	left := filepath.Join(j.out, runsFolder)
	if _, err := os.Stat(left); err != nil {
		return wrong("--out %s already holds a choice (%s): choose another folder", j.out, selectionFile)
	}
	unlock, err := lockFolder(j.out)
	if err == nil {
		defer unlock()
		err = os.RemoveAll(left)
	}
	if err != nil {
		return fmt.Errorf("--out %s: %w", j.out, err)
	}
	return wrong("--out %s holds a choice that was killed (%s): what was left of its runs is removed, what it set aside stays spent; choose another folder", j.out, selectionFile)
}

// lockFolder takes a folder for this process.
func lockFolder(dir string) (unlock func(), err error) {
	path := filepath.Join(dir, lockFile)
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		if err := lock.TryLock(file); err != nil {
			file.Close()
			if errors.Is(err, lock.ErrLocked) {
				return nil, wrong("another dptrain writes there: wait until it ends")
			}
			return nil, err
		}
		mine, err := file.Stat()
		if err != nil {
			file.Close()
			return nil, err
		}
		if there, err := os.Stat(path); err == nil && os.SameFile(mine, there) {
			return func() { unlockFolder(file, path) }, nil
		}
		file.Close() // its last holder removed it before letting go
	}
}

// unlockFolder removes the lock while nobody else can have it, or, on Windows, which
// removes no open file, as soon as somebody can.
func unlockFolder(file *os.File, path string) {
	err := os.Remove(path)
	file.Close()
	if err != nil {
		os.Remove(path)
	}
}

// sweep removes files that a crash left unfinished.
func (j *job) sweep() {
	entries, _ := os.ReadDir(j.out) // what is not found is not in the way
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), atomicfile.TemporaryPrefix) {
			os.Remove(filepath.Join(j.out, e.Name()))
		}
	}
}
