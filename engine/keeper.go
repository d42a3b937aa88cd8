package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dptrain/dptrain/internal/atomicfile"
)

// ErrCheckpoint is what an error unwraps to where a checkpoint could not be written.
var ErrCheckpoint = errors.New("checkpoint")

// keeper writes checkpoints into a folder, in the background. A file has its
// final name only when all of it is on disk, and the one before it is kept beside
// it, so that the folder always holds a whole one, even if the disk damages one.
type keeper struct {
	folder  string
	every   time.Duration
	last    checkpoint // the one that was begun last; its state is the machine's own
	begun   time.Time
	took    time.Duration // the last write that ended
	reading chan struct{} // closed when the write under way has read the state; nil: none ever was
	writing chan error    // gives the end of the write under way; nil: none is
}

const (
	checkpointName   = "lot-%012d.checkpoint"
	checkpointSuffix = ".checkpoint"
	unfinished       = "unfinished"
)

// newKeeper begins a folder of checkpoints; one that another run has used is
// refused.
func (r *Run) newKeeper() (*keeper, error) {
	names, err := checkpoints(r.config.Files.CheckpointFolder)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		return nil, fmt.Errorf("checkpoint: %s holds those of another run: resume it, or choose another folder", r.config.Files.CheckpointFolder)
	}
	return r.keepIn(r.config.Files.CheckpointFolder)
}

func (r *Run) keepIn(folder string) (*keeper, error) {
	traits, err := r.traits()
	if err != nil {
		return nil, err
	}
	k := &keeper{folder: folder, every: r.config.Files.CheckpointInterval}
	k.last = checkpoint{Run: traits, Average: r.config.Optimization.Average.Decay > 0, Slots: r.config.Optimization.Optimizer.Slots(), Projection: len(r.Directions())}
	for _, v := range r.program.Parameters {
		k.last.Sizes = append(k.last.Sizes, v.Shape.TotalSize())
	}
	k.last.state, k.last.projection = r.machine.State(), r.Directions()
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
	slices.Reverse(names) // ReadDir sorts them
	return names, nil
}

// stake is how many lots that were computed a crash may take, unless a disk is slow, and how
// many that the ledger states and nobody computed: what is spent does not come back.
func (c *Config) stake() int { return max(1, c.Steps/32) }

// keep saves in the background if it is time. A failure of the last write ends
// the run, so that nobody trains on in the belief that it is saved.
func (r *Run) keep() error {
	k := r.keeper
	if k.writing != nil {
		select {
		case err := <-k.writing:
			k.writing = nil
			if err != nil {
				return err
			}
		default:
			return nil // the disk is slower than the interval
		}
	}
	if !k.due(r.step-k.last.Step, r.config.stake()) {
		return nil
	}
	return r.beginSave()
}

// due tells whether what was done since the last checkpoint is worth one: for the time that
// it took, or, where writing takes a small share of that, for what it cost.
func (k *keeper) due(lots, stake int) bool {
	const share = 20
	since := time.Since(k.begun)
	return since >= k.every || lots >= stake && since >= share*k.took
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

// beginSave leaves the writing to another goroutine. The state is not copied: it is
// read while the next lot is summed, which leaves it as it is, and that lot's release
// waits until it has been read.
func (r *Run) beginSave() error {
	k := r.keeper
	if err := r.machine.SyncState(); err != nil {
		return err
	}
	k.last.Step = r.step
	if r.ledger != nil {
		k.last.Head = r.ledger.Head()
		k.last.Bounds = r.mechanism.clipper.State(k.last.Bounds[:0])
	}
	k.begun, k.reading, k.writing = time.Now(), make(chan struct{}), make(chan error, 1)
	go func(read chan<- struct{}, done chan<- error) {
		err := k.write(read)
		k.took = time.Since(k.begun)
		done <- err
	}(k.reading, k.writing)
	return nil
}

// still ends when no write reads the state any more, which may then be changed.
func (k *keeper) still() {
	if k != nil && k.reading != nil {
		<-k.reading
	}
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

func (k *keeper) write(read chan<- struct{}) error {
	file, err := k.fill()
	close(read)
	if err == nil {
		err = k.finish(file)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	return err
}

// fill makes the file with all in it, which may not be on disk yet.
func (k *keeper) fill() (*os.File, error) {
	if err := os.MkdirAll(k.folder, 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(filepath.Join(k.folder, unfinished))
	if err != nil {
		return nil, err
	}
	if err := k.last.write(file); err != nil {
		err = errors.Join(err, file.Close())
		os.Remove(file.Name())
		return nil, err
	}
	return file, nil
}

// finish has the file on disk, under its final name.
func (k *keeper) finish(file *os.File) error {
	name := fmt.Sprintf(checkpointName, k.last.Step)
	if err := atomicfile.Commit(file, filepath.Join(k.folder, name)); err != nil {
		return err
	}
	if err := atomicfile.SyncFolder(k.folder); err != nil {
		return err
	}
	return k.discard(name)
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
