package network

import (
	"math"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/engine/internal/frozen"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// Network is a network compiled for a microbatch and ready on a device.
type Network struct {
	Program    *plan.Program
	Executable plan.Executable
	Running    *Running        // nil if the network has none
	Frozen     *frozen.Outputs // what the program reads of frozen layers; nil where it computes them itself
	Outputs    [][]float32     // inputs of the executable for Frozen
	DeviceNote string          // what the user should know about the device; may be empty

	checkpointed bool
}

// Buffers returns what a loader writes and reads.
func (n *Network) Buffers() load.Buffers {
	return load.Buffers{Executable: n.Executable, Records: n.Program.Records, Rows: n.Program.Batch, Running: n.Running.Count()}
}

// Warning returns what the user should know about the network and the device.
func (n *Network) Warning() string {
	notes := []string{n.Program.Warning, n.DeviceNote, ""}
	if n.checkpointed {
		notes[2] = "the microbatch does not fit in memory with all results of the forward pass: most are computed again in the backward pass, which takes more time"
	}
	return strings.Join(slices.DeleteFunc(notes, func(s string) bool { return s == "" }), "; ")
}

// areFinite reports whether no value is NaN or infinite.
func areFinite(values []float32) bool {
	return !slices.ContainsFunc(values, func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) })
}
