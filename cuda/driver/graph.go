//go:build gpu

package driver

// #include "calls.h"
// #cgo nocallback driver_run
// #cgo nocallback driver_wait
import "C"

import (
	"runtime"
	"slices"
	"unsafe"
)

// Graph is a recording of work that one call repeats.
type Graph struct {
	device *Device
	exec   C.CUgraphExec
}

// Capture records what the function sends to the device from its own goroutine,
// without running it. Other goroutines go on as before. The function may take
// memory and load images, but it may not Wait, and it copies page-locked memory
// alone.
func (d *Device) Capture(record func() error) (*Graph, error) {
	d.capturing.Lock()
	defer d.capturing.Unlock()
	d.recordings.Add(1)
	defer d.recordings.Add(-1)
	graph, err := d.record(record)
	if err != nil {
		return nil, err
	}
	g := &Graph{device: d}
	if err := d.check("a recording cannot be made ready", C.driver_instantiate(d.current, graph, &g.exec)); err != nil {
		return nil, err
	}
	return g, nil
}

func (d *Device) record(record func() error) (graph C.CUgraph, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.check("no recording can begin", C.driver_record(d.current, d.stream, d.capture)); err != nil {
		return nil, err
	}
	// Ended on a panic too, or this thread would record for ever.
	defer func() {
		ended := d.check("a recording cannot be ended", C.driver_recorded(d.capture, &graph))
		if err == nil {
			err = ended
		}
		if err != nil && graph != nil {
			C.cuGraphDestroy(graph)
		}
	}()
	return nil, record()
}

// Point is a place in a recording.
type Point struct{ nodes []C.CUgraphNode }

// Reached is the place behind what was recorded so far, by the one who records.
func (d *Device) Reached() (Point, error) {
	var nodes *C.CUgraphNode
	var count C.size_t
	if err := d.check("no place in a recording", C.driver_reached(d.capture, &nodes, &count)); err != nil {
		return Point{}, err
	}
	return Point{slices.Clone(unsafe.Slice(nodes, count))}, nil
}

// Behind has what is recorded next run after the points, and not after anything else
// that was recorded.
func (d *Device) Behind(points ...Point) error {
	var nodes []C.CUgraphNode
	for _, p := range points {
		nodes = append(nodes, p.nodes...)
	}
	return d.check("no order of a recording", C.driver_behind(d.capture, unsafe.SliceData(nodes), C.size_t(len(nodes))))
}

// Run repeats a recording, asynchronously. It takes no memory.
func (d *Device) Run(g *Graph) error {
	return d.check("a recording cannot be run", C.driver_run(d.current, d.stream, g.exec))
}

// Close gives back what a recording holds. It may still be running.
func (g *Graph) Close() error {
	if g == nil || g.exec == nil {
		return nil
	}
	exec := g.exec
	g.exec = nil
	return g.device.check("a recording cannot be given back", C.driver_drop(g.device.current, exec))
}
