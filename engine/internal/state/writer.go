package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dptrain/dptrain/internal/host/atomicfile"
)

// ErrCheckpoint is wrapped by an error where a checkpoint cannot be written.
var ErrCheckpoint = errors.New("checkpoint")

// Writer writes checkpoints into a folder, in the background. A file gets its final
// name when it is completely on disk, and its predecessor is kept: the folder always contains
// a valid checkpoint, even if the disk damages one.
type Writer struct {
	folder      string
	interval    time.Duration
	maxLostLots int

	// describe completes the description of a lot that was just released: the line of the ledger and
	// the bounds. It makes the state readable in memory.
	describe func(*Checkpoint) error

	last     Checkpoint // the last one begun; its state is the executable's memory
	begun    time.Time
	duration time.Duration // of the last write that ended
	reading  chan struct{} // closed when the current write has read the state; nil before the first write
	writing  chan error    // receives the result of the current write; nil between writes
}

// NewWriter returns a writer of checkpoints into a folder. first is the description of the
// run before its first lot; its arrays are the memory that each checkpoint is read from.
func NewWriter(folder string, interval time.Duration, maxLostLots int, first Checkpoint,
	describe func(*Checkpoint) error) *Writer {
	return &Writer{folder: folder, interval: interval, maxLostLots: maxLostLots, describe: describe, last: first}
}

// SaveIfDue begins a checkpoint in the background if one is due.
func (w *Writer) SaveIfDue(step int) error {
	due, err := w.IsDue(step)
	if err != nil || !due {
		return err
	}
	return w.Begin(step)
}

// IsDue reports whether a checkpoint is due. The failure of the last write ends the run, so that it does not
// train on without checkpoints.
func (w *Writer) IsDue(step int) (bool, error) {
	if w.writing != nil {
		select {
		case err := <-w.writing:
			w.writing = nil
			if err != nil {
				return false, err
			}
		default:
			return false, nil // the disk is slower than the interval
		}
	}
	return w.isDue(step - w.last.Step), nil
}

// isDue reports whether the lots since the last checkpoint deserve one: after the interval,
// or, where writing takes a small share of the time, after maxLostLots.
func (w *Writer) isDue(lots int) bool {
	const share = 20
	since := time.Since(w.begun)
	return since >= w.interval || lots >= w.maxLostLots && since >= share*w.duration
}

// Save writes a checkpoint and returns when it is on disk.
func (w *Writer) Save(step int) error {
	if err := w.Wait(); err != nil {
		return err
	}
	if err := w.Begin(step); err != nil {
		return err
	}
	return w.Wait()
}

// Begin starts a goroutine that writes a checkpoint. The state is not copied: the goroutine
// reads it while the next lot is summed, which does not change it, and the release of that lot
// waits in waitUntilRead.
func (w *Writer) Begin(step int) error {
	if err := w.describe(&w.last); err != nil {
		return err
	}
	w.last.Step = step
	w.begun, w.reading, w.writing = time.Now(), make(chan struct{}), make(chan error, 1)
	go func(read chan<- struct{}, done chan<- error) {
		err := w.write(read)
		w.duration = time.Since(w.begun)
		done <- err
	}(w.reading, w.writing)
	return nil
}

// WaitUntilRead returns when no write reads the state, which may then be changed. w may be nil.
func (w *Writer) WaitUntilRead() {
	if w != nil && w.reading != nil {
		<-w.reading
	}
}

// Wait returns when the current write has ended.
func (w *Writer) Wait() error {
	if w.writing == nil {
		return nil
	}
	err := <-w.writing
	w.writing = nil
	return err
}

func (w *Writer) write(read chan<- struct{}) error {
	file, err := w.writeTemporary()
	close(read)
	if err == nil {
		err = w.commit(file)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	return err
}

// writeTemporary writes a complete file, which may not be on disk yet.
func (w *Writer) writeTemporary() (*os.File, error) {
	if err := os.MkdirAll(w.folder, 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(filepath.Join(w.folder, temporaryCheckpoint))
	if err != nil {
		return nil, err
	}
	if err := w.last.write(file); err != nil {
		err = errors.Join(err, file.Close())
		os.Remove(file.Name())
		return nil, err
	}
	return file, nil
}

// commit gives a temporary file its final name, on disk.
func (w *Writer) commit(file *os.File) error {
	name := fmt.Sprintf(checkpointName, w.last.Step)
	if err := atomicfile.Commit(file, filepath.Join(w.folder, name)); err != nil {
		return err
	}
	if err := atomicfile.SyncFolder(w.folder); err != nil {
		return err
	}
	return w.removeOld(name)
}

// removeOld removes all checkpoints but the newest and its predecessor. One of a later lot was
// found damaged when the run was resumed.
func (w *Writer) removeOld(newest string) error {
	names, err := List(w.folder)
	if err != nil {
		return err
	}
	at := slices.Index(names, filepath.Join(w.folder, newest))
	for i, name := range names {
		if i == at || i == at+1 {
			continue
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}
