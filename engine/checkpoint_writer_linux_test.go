package engine

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/dptrain/dptrain/engine/optim"
)

// A checkpoint contains the weights between two lots, even if its write takes long: it goes into
// a pipe without a reader.
func TestCheckpointWriter_SavesStateBetweenLots(t *testing.T) {
	c, drawn := checkpointedConfig(t), 0
	c.Network, c.Optimization.Average.Decay = wideNetwork(300, &drawn), 0
	c.Optimization.Optimizer = optim.Optimizer{Kind: optim.KindMomentum, Momentum: 0.9}
	c.Files.CheckpointInterval = time.Nanosecond
	r := newRun(t, c)
	if err := r.runLot(); err != nil {
		t.Fatal(err)
	}
	var want [][]float32
	for _, w := range r.network.Executable.State().Weights {
		want = append(want, slices.Clone(w))
	}
	path := filepath.Join(c.Files.CheckpointFolder, "unfinished")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.checkpoints.SaveIfDue(r.step); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	lot := make(chan error, 1)
	go func() { lot <- r.runLot() }()
	select {
	case err := <-lot:
		t.Errorf("the lot ended while its checkpoint was written: %v", err)
		lot <- err
	case <-time.After(300 * time.Millisecond):
	}
	file, err := io.ReadAll(pipe)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "read")
	if err := os.WriteFile(name, file, 0o644); err != nil {
		t.Fatal(err)
	}
	saved, err := openState(name)
	if err != nil || saved.Step != 1 || !reflect.DeepEqual(saved.Memory.Weights, want) {
		t.Errorf("error %v, or not the state after the first lot", err)
	}
	if err := <-lot; err != nil {
		t.Fatal(err)
	}
	if reflect.DeepEqual(r.network.Executable.State().Weights, want) {
		t.Error("the lot changed no weight")
	}
	r.checkpoints.Wait() // its error is expected: a pipe cannot be synced
}
