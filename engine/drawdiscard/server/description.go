package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/internal/host/atomicfile"
)

// A folder has the description of its model, whose hash snapshot and journal contain. Some settings can
// change when a server continues a model. The new description is first written next to the old one,
// then a snapshot with its hash replaces the one before, and then the new description takes the place of
// the old one. After a crash between these steps, the hash in the snapshot decides which of them holds.

const (
	descriptionName     = "model.json"
	nextDescriptionName = "model-next.json"
)

// readDescription returns the description in a folder; nil if there is none.
func readDescription(folder string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(folder, descriptionName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// describe returns the text of the model's description. changed reports that it differs from that in
// the folder, by settings that may change: the learning rate, its schedule and the rate of false alarms.
// A start that is not given is that of the folder.
func (m *Model) describe(folder string, before []byte) (text []byte, changed bool, err error) {
	var old Description
	parsed := before != nil && json.Unmarshal(before, &old) == nil
	if parsed && m.description.Start == "" {
		m.description.Start = old.Start
	}
	if text, err = encodeDescription(m.description); err != nil || before == nil || bytes.Equal(before, text) {
		return text, false, err
	}
	path := filepath.Join(folder, descriptionName)
	if s, _, err := m.newJournal(folder, text).readSnapshot(); s != nil && err == nil { // of this model, by its identity
		return nil, false, &DamagedError{path, "it is not the description from which its snapshot was written"}
	}
	if parsed {
		old.Settings.LearningRate, old.Schedule = m.description.Settings.LearningRate, m.description.Schedule
		old.FalseAlarms = m.description.FalseAlarms
		if same, err := encodeDescription(old); err == nil && bytes.Equal(same, text) {
			return text, true, nil
		}
	}
	return nil, false, fmt.Errorf("%s describes another model or other settings; use those, or another folder or name: only the learning rate, its schedule and the rate of false alarms can change", path)
}

func encodeDescription(d Description) ([]byte, error) {
	text, err := json.MarshalIndent(d, "", "  ")
	return append(text, '\n'), err
}

// announceChange writes a new description next to the old one.
func announceChange(folder string, text []byte) error {
	return errors.Join(atomicfile.Write(filepath.Join(folder, nextDescriptionName), text), atomicfile.SyncFolder(folder))
}

// completeChange puts the new description in the place of the old one.
func completeChange(folder string) error {
	err := os.Rename(filepath.Join(folder, nextDescriptionName), filepath.Join(folder, descriptionName))
	return errors.Join(err, atomicfile.SyncFolder(folder))
}

// finishChange completes a change of the description that a crash interrupted, if the snapshot has the
// hash of the new one, and otherwise takes it back.
func finishChange(folder string, k, weights int) error {
	path := filepath.Join(folder, nextDescriptionName)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	next := newJournal(folder, sha256.Sum256(text), k, weights)
	if s, _, err := next.readSnapshot(); err == nil && s != nil {
		return completeChange(folder)
	}
	numbers, err := next.files()
	if err != nil {
		return err
	}
	for _, n := range numbers { // the new journal has no record before there is its snapshot
		if next.hasHeader(n) {
			if err := os.Remove(next.path(n)); err != nil {
				return err
			}
		}
	}
	return errors.Join(os.Remove(path), atomicfile.SyncFolder(folder))
}

// hasHeader reports whether file n begins with the header of this journal.
func (j *journal) hasHeader(n uint64) bool {
	file, err := os.Open(j.path(n))
	if err != nil {
		return false
	}
	defer file.Close()
	head := make([]byte, journalHeader)
	_, err = io.ReadFull(file, head)
	return err == nil && bytes.Equal(head, j.header(n))
}

// hashWeights is the SHA-256 of weights as little-endian bytes.
func hashWeights(w []float32) string {
	sum := sha256.Sum256(appendWeights(nil, w))
	return hex.EncodeToString(sum[:])
}
