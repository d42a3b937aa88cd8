package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dptrain/dptrain/internal/host/atomicfile"
)

// ErrCheckpoint is wrapped by an error where a checkpoint cannot be written.
var ErrCheckpoint = errors.New("checkpoint")

// checkpointWriter writes checkpoints into a folder, in the background. A file gets its final
// name when it is completely on disk, and its predecessor is kept: the folder always contains
// a valid checkpoint, even if the disk damages one.
type checkpointWriter struct {
	folder      string
	interval    time.Duration
	maxLostLots int

	network   *compiledNetwork
	mechanism *mechanism
	account   *privacyAccount // nil where the run is not private

	last     checkpoint // the last one begun; its state is the executable's memory
	begun    time.Time
	duration time.Duration // of the last write that ended
	reading  chan struct{} // closed when the current write has read the state; nil before the first write
	writing  chan error    // receives the result of the current write; nil between writes
}

const (
	checkpointName      = "lot-%012d.checkpoint"
	checkpointSuffix    = ".checkpoint"
	temporaryCheckpoint = "unfinished"
)

// newCheckpointWriter returns a writer for a run's folder of checkpoints.
func (r *Run) newCheckpointWriter() (*checkpointWriter, error) {
	settings, err := r.fingerprint()
	if err != nil {
		return nil, err
	}
	c := &r.config
	w := &checkpointWriter{folder: c.Files.CheckpointFolder, interval: c.Files.CheckpointInterval, maxLostLots: c.maxLostLots(),
		network: r.compiled, mechanism: r.mechanism, account: r.account}
	w.last = checkpoint{Run: settings, Average: c.Optimization.Average.Decay > 0,
		Slots: c.Optimization.Optimizer.Slots(), Projection: len(r.Directions())}
	for _, p := range r.compiled.program.Parameters {
		w.last.Sizes = append(w.last.Sizes, p.Shape.TotalSize())
	}
	w.last.state, w.last.projection, w.last.running = r.optimizer.state(r.compiled.executable), r.Directions(), r.compiled.running.all()
	w.last.Running = len(w.last.running)
	return w, nil
}

// refuseOtherRun returns an error if the folder contains checkpoints.
func (w *checkpointWriter) refuseOtherRun() error {
	names, err := listCheckpoints(w.folder)
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("checkpoint: %s contains checkpoints of another run; resume it, or choose another folder", w.folder)
	}
	return err
}

// listCheckpoints returns the files in a folder, the newest first; none if there is no
// folder.
func listCheckpoints(folder string) ([]string, error) {
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

// saveIfDue begins a checkpoint in the background if one is due. The failure of the last write
// ends the run, so that it does not train on without checkpoints.
func (w *checkpointWriter) saveIfDue(step int) error {
	if w.writing != nil {
		select {
		case err := <-w.writing:
			w.writing = nil
			if err != nil {
				return err
			}
		default:
			return nil // the disk is slower than the interval
		}
	}
	if !w.isDue(step - w.last.Step) {
		return nil
	}
	return w.begin(step)
}

// isDue reports whether the lots since the last checkpoint deserve one: after the interval,
// or, where writing takes a small share of the time, after maxLostLots.
func (w *checkpointWriter) isDue(lots int) bool {
	const share = 20
	since := time.Since(w.begun)
	return since >= w.interval || lots >= w.maxLostLots && since >= share*w.duration
}

// save writes a checkpoint and returns when it is on disk.
func (w *checkpointWriter) save(step int) error {
	if err := w.wait(); err != nil {
		return err
	}
	if err := w.begin(step); err != nil {
		return err
	}
	return w.wait()
}

// begin starts a goroutine that writes a checkpoint. The state is not copied: the goroutine
// reads it while the next lot is summed, which does not change it, and the release of that lot
// waits in waitUntilRead.
func (w *checkpointWriter) begin(step int) error {
	if err := w.network.executable.SyncState(); err != nil {
		return err
	}
	w.last.Step = step
	if w.account != nil {
		w.last.Head = w.account.ledger.Head()
		w.last.Bounds = w.mechanism.clipper.State(w.last.Bounds[:0])
	}
	w.begun, w.reading, w.writing = time.Now(), make(chan struct{}), make(chan error, 1)
	go func(read chan<- struct{}, done chan<- error) {
		err := w.write(read)
		w.duration = time.Since(w.begun)
		done <- err
	}(w.reading, w.writing)
	return nil
}

// waitUntilRead returns when no write reads the state, which may then be changed. w may be nil.
func (w *checkpointWriter) waitUntilRead() {
	if w != nil && w.reading != nil {
		<-w.reading
	}
}

// wait returns when the current write has ended.
func (w *checkpointWriter) wait() error {
	if w.writing == nil {
		return nil
	}
	err := <-w.writing
	w.writing = nil
	return err
}

func (w *checkpointWriter) write(read chan<- struct{}) error {
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
func (w *checkpointWriter) writeTemporary() (*os.File, error) {
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
func (w *checkpointWriter) commit(file *os.File) error {
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
func (w *checkpointWriter) removeOld(newest string) error {
	names, err := listCheckpoints(w.folder)
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
