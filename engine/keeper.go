package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// keeper writes checkpoints into a folder, in the background. A file has its
// final name only when all of it is on disk, and the one before it is kept beside
// it, so that the folder always holds a whole one, even if the disk damages one.
type keeper struct {
	folder  string
	every   time.Duration
	room    checkpoint // filled by the training loop, read by the writer
	begun   time.Time
	writing chan error // gives the end of the write under way; nil: none is
}

const (
	checkpointName   = "lot-%012d.checkpoint"
	checkpointSuffix = ".checkpoint"
	unfinished       = "unfinished"
)

// newKeeper begins a folder of checkpoints; one that another run has used is
// refused.
func (r *Run) newKeeper() (*keeper, error) {
	names, err := checkpoints(r.config.Checkpoint)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		return nil, fmt.Errorf("checkpoint: %s holds those of another run: resume it, or choose another folder", r.config.Checkpoint)
	}
	return r.keepIn(r.config.Checkpoint)
}

func (r *Run) keepIn(folder string) (*keeper, error) {
	traits, err := r.traits()
	if err != nil {
		return nil, err
	}
	k := &keeper{folder: folder, every: r.config.CheckpointEvery}
	k.room = checkpoint{Run: traits, Average: r.config.Average.Decay > 0, Slots: r.config.Optimizer.Slots(), Projection: len(r.Directions())}
	for _, v := range r.program.Vectors {
		k.room.Sizes = append(k.room.Sizes, v.Shape.TotalSize())
	}
	k.room.allocate()
	copy(k.room.projection, r.Directions())
	return k, nil
}

// checkpoints are the files in a folder, the newest first; none if there is no
// folder.
func checkpoints(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), checkpointSuffix) {
			names = append(names, filepath.Join(folder, e.Name()))
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	return names, nil
}

// keep saves in the background if it is time. A failure of the last write ends
// the run, so that nobody trains on in the belief that it is saved.
func (r *Run) keep() error {
	k := r.keeper
	if time.Since(k.begun) < k.every {
		return nil
	}
	select {
	case err := <-k.writing:
		k.writing = nil
		if err != nil {
			return err
		}
	default:
		if k.writing != nil {
			return nil // the disk is slower than the interval
		}
	}
	return r.beginSave()
}

// save writes a checkpoint and returns when it is on disk.
func (r *Run) save() error {
	if err := r.keeper.wait(); err != nil {
		return err
	}
	if err := r.beginSave(); err != nil {
		return err
	}
	return r.keeper.wait()
}

// beginSave copies what is to be saved and leaves the writing to another
// goroutine.
func (r *Run) beginSave() error {
	k := r.keeper
	if err := r.machine.Sync(); err != nil {
		return err
	}
	copyState(k.room.state, r.machine.State())
	k.room.Step = r.step
	if r.ledger != nil {
		k.room.Head = r.ledger.Head()
		k.room.Bounds = r.mechanism.clipper.State(k.room.Bounds[:0])
	}
	k.begun, k.writing = time.Now(), make(chan error, 1)
	go func(done chan<- error) { done <- k.write() }(k.writing)
	return nil
}

// wait ends with the write under way.
func (k *keeper) wait() error {
	if k.writing == nil {
		return nil
	}
	err := <-k.writing
	k.writing = nil
	return err
}

func (k *keeper) write() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("checkpoint: %w", err)
		}
	}()
	if err := os.MkdirAll(k.folder, 0o755); err != nil {
		return err
	}
	temporary := filepath.Join(k.folder, unfinished)
	if err := writeSynced(temporary, &k.room); err != nil {
		os.Remove(temporary)
		return err
	}
	if err := os.Rename(temporary, filepath.Join(k.folder, fmt.Sprintf(checkpointName, k.room.Step))); err != nil {
		return err
	}
	if err := syncFolder(k.folder); err != nil {
		return err
	}
	return k.discard(fmt.Sprintf(checkpointName, k.room.Step))
}

// discard removes all checkpoints but the newest and the one before it. Any of a
// later lot was found damaged when the run was resumed.
func (k *keeper) discard(newest string) error {
	names, err := checkpoints(k.folder)
	if err != nil {
		return err
	}
	at := slices.Index(names, filepath.Join(k.folder, newest))
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

func writeSynced(path string, c *checkpoint) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	err = c.write(file)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// syncFolder has a rename on disk; Windows cannot open a folder, and does not
// need it.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
