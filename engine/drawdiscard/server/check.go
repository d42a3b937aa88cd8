package server

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/dptrain/dptrain/internal/host/atomicfile"
	"github.com/dptrain/dptrain/internal/host/lock"
)

// FolderReport describes the files of one model.
type FolderReport struct {
	Name      string `json:"name"` // of the folder
	OK        bool   `json:"ok"`
	Updates   uint64 `json:"updates"` // the last one that can be read
	Lost      uint64 `json:"lost"`    // updates up to that one, or after it, that cannot be read
	Instances int    `json:"instances"`
	Weights   int    `json:"weights"`
	// Incomplete is the number of bytes of an update that a crash cut off. It was not acknowledged,
	// or a power failure took it, and the next start drops it.
	Incomplete int64  `json:"incomplete_bytes"`
	Damage     string `json:"damage,omitempty"`

	state   *state
	journal *journal
}

// Check reads the files of all models in the folder of a server, or those of one model, and changes
// nothing. No server may use them.
func Check(folder string) ([]*FolderReport, error) {
	if isModelFolder(folder) {
		r, err := checkFolder(folder)
		return []*FolderReport{r}, err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var all []*FolderReport
	for _, e := range entries {
		if path := filepath.Join(folder, e.Name()); e.IsDir() && isModelFolder(path) {
			r, err := checkFolder(path)
			if err != nil {
				return nil, err
			}
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s contains no model of a server; name the folder of dptrain serve", folder)
	}
	return all, nil
}

// isModelFolder reports whether a folder has a file of a model.
func isModelFolder(folder string) bool {
	journals, _ := filepath.Glob(filepath.Join(folder, journalPrefix+"*"))
	for _, path := range append(journals, filepath.Join(folder, descriptionName), filepath.Join(folder, snapshotName)) {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

func checkFolder(folder string) (*FolderReport, error) {
	path, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	r := &FolderReport{Name: filepath.Base(path)}
	if held, err := os.OpenFile(filepath.Join(folder, lockName), os.O_RDWR, 0); err == nil {
		defer held.Close()
		if err := lock.TryLock(held); err != nil {
			return nil, fmt.Errorf("%s is in use by a server: stop it first: %w", folder, err)
		}
	}
	var damaged *DamagedError
	if r.journal, err = journalOf(folder); err == nil {
		r.state, err = r.journal.recover()
	}
	if err == nil && r.state == nil {
		err = &DamagedError{filepath.Join(folder, snapshotName), "it is missing"}
	}
	if err == nil {
		err = checkDescription(r.journal)
	}
	switch {
	case err == nil:
		r.OK = true
	case errors.As(err, &damaged):
		r.Damage = damaged.Path + ": " + damaged.Reason
		if r.journal != nil {
			r.state, r.Lost = r.journal.salvage()
		}
	default:
		return nil, err
	}
	if r.state != nil {
		r.Updates, r.Incomplete = r.state.updates, r.state.dropped
		r.Instances, r.Weights = len(r.state.instances), r.journal.weights
	}
	return r, nil
}

// journalOf returns the journal of a folder whose model is known from its snapshot alone.
func journalOf(folder string) (*journal, error) {
	path := filepath.Join(folder, snapshotName)
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &DamagedError{path, "it is missing"}
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	head := make([]byte, snapshotHeader)
	if _, err := file.ReadAt(head, 0); err != nil {
		return nil, &DamagedError{path, "it is shorter than its header"}
	}
	number := func(i int) int {
		return int(min(binary.LittleEndian.Uint64(head[len(snapshotMagic)+32+8*i:]), 1<<32))
	}
	return newJournal(folder, [32]byte(head[len(snapshotMagic):]), number(2), number(3)), nil
}

// checkDescription compares the description with the one that its snapshot names.
func checkDescription(j *journal) error {
	if next, err := os.ReadFile(filepath.Join(j.folder, nextDescriptionName)); err == nil && sha256.Sum256(next) == j.identity {
		return nil // the next start completes the change
	}
	path := filepath.Join(j.folder, descriptionName)
	text, err := os.ReadFile(path)
	if err == nil && sha256.Sum256(text) != j.identity {
		return &DamagedError{path, "it is not the description from which the snapshot was written"}
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) { // a server that is stopped at its first start has none yet
		return err
	}
	return nil
}

// salvage reads the snapshot and all whole records after it, and counts the updates that are lost. Each
// record is an instance by itself, so those after a damaged one are valid.
func (j *journal) salvage() (s *state, lost uint64) {
	s, next, err := j.readSnapshot()
	if err != nil || s == nil {
		return nil, 0
	}
	numbers, _ := j.files()
	for _, n := range slices.DeleteFunc(numbers, func(n uint64) bool { return n < next }) {
		all, err := os.ReadFile(j.path(n))
		if err != nil || len(all) < journalHeader {
			continue
		}
		unread := uint64(0) // records since the last whole one
		for record := range slices.Chunk(all[journalHeader:], j.recordSize()) {
			before := s.updates
			if len(record) < j.recordSize() {
				break
			}
			s.updates = max(before, binary.LittleEndian.Uint64(record[4:])-1) // an update may follow lost ones
			if s.apply(record) != nil {
				s.updates = before
				unread++
				continue
			}
			lost += s.updates - before - 1
			unread = 0
		}
		lost += unread
	}
	return s, lost
}

// Save writes what can be read to a new folder, which a server continues.
func (r *FolderReport) Save(folder string) error {
	if r.state == nil {
		return fmt.Errorf("model %s: nothing can be saved without its snapshot; restore the file from a copy", r.Name)
	}
	to := filepath.Join(folder, r.Name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	j := newJournal(to, r.journal.identity, r.Instances, r.Weights)
	// The state is without the torn end of the other folder.
	if err := j.start(&state{instances: r.state.instances, updates: r.state.updates}); err != nil {
		return err
	}
	if err := j.close(); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(r.journal.folder, descriptionName))
	if err == nil && sha256.Sum256(text) == r.journal.identity { // otherwise the next start writes it
		return errors.Join(atomicfile.Write(filepath.Join(to, descriptionName), text), atomicfile.SyncFolder(to))
	}
	return nil
}
