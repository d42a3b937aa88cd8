//go:build gpu

package driver

// #include "calls.h"
// #cgo nocallback driver_launch_graph
// #cgo nocallback driver_synchronize
import "C"

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Graph is captured work that one call launches.
type Graph struct {
	device *Device
	exec   C.CUgraphExec

	// Nodes are kernels, copies and sets, Edges the dependencies between them. They are for tests:
	// 0 if the driver cannot count them.
	Nodes, Edges int
}

// capturer captures a device's work into graphs.
type capturer struct {
	device        *Device
	captureStream C.CUstream
	capturing     sync.Mutex
	captures      atomic.Int32 // in progress
}

// Capture captures the work that f sends to the device from its own goroutine, without
// running it. Other goroutines are not affected. f may allocate memory and load modules;
// it may not call Synchronize, and it may copy only from and to page-locked memory.
func (c *capturer) Capture(f func() error) (*Graph, error) {
	c.capturing.Lock()
	defer c.capturing.Unlock()
	c.captures.Add(1)
	defer c.captures.Add(-1)
	graph, err := c.capture(f)
	if err != nil {
		return nil, err
	}
	g := &Graph{device: c.device}
	var nodes, edges C.size_t
	C.driver_graph_size(c.device.current, graph, &nodes, &edges)
	g.Nodes, g.Edges = int(nodes), int(edges)
	if err := c.device.check("a graph cannot be instantiated", C.driver_instantiate(c.device.current, graph, &g.exec)); err != nil {
		return nil, err
	}
	return g, nil
}

func (c *capturer) capture(f func() error) (graph C.CUgraph, err error) {
	d := c.device
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.check("a capture cannot begin", C.driver_begin_capture(d.current, d.stream, c.captureStream)); err != nil {
		return nil, err
	}
	// Also after a panic: otherwise this thread would capture for ever.
	defer func() {
		ended := d.check("a capture cannot end", C.driver_end_capture(c.captureStream, &graph))
		if err == nil {
			err = ended
		}
		if err != nil && graph != nil {
			C.cuGraphDestroy(graph)
		}
	}()
	return nil, f()
}

// CapturePoint is a position in a capture: the nodes that the next node would depend on.
type CapturePoint struct{ nodes []C.CUgraphNode }

// CapturePoint returns the position after the work captured so far. Only the capturing
// function may call it.
func (c *capturer) CapturePoint() (CapturePoint, error) {
	var nodes *C.CUgraphNode
	var count C.size_t
	if err := c.device.check("a capture's position cannot be read", C.driver_capture_point(c.captureStream, &nodes, &count)); err != nil {
		return CapturePoint{}, err
	}
	return CapturePoint{slices.Clone(unsafe.Slice(nodes, count))}, nil
}

// SetCaptureDependencies makes the work captured next depend on these points, and on no
// other captured work.
func (c *capturer) SetCaptureDependencies(points ...CapturePoint) error {
	var nodes []C.CUgraphNode
	for _, p := range points {
		for _, n := range p.nodes {
			if !slices.Contains(nodes, n) { // the driver refuses an edge that exists
				nodes = append(nodes, n)
			}
		}
	}
	return c.device.check("a capture's dependencies cannot be set",
		C.driver_set_capture_dependencies(c.captureStream, unsafe.SliceData(nodes), C.size_t(len(nodes))))
}

// LaunchGraph launches captured work, asynchronously. It allocates nothing.
func (d *Device) LaunchGraph(g *Graph) error {
	d.graphs.Add(1)
	return d.check("a graph cannot be launched", C.driver_launch_graph(d.current, d.stream, g.exec))
}

// Close destroys the graph. It may still be running.
func (g *Graph) Close() error {
	if g == nil || g.exec == nil {
		return nil
	}
	exec := g.exec
	g.exec = nil
	return g.device.check("a graph cannot be destroyed", C.driver_destroy_graph(g.device.current, exec))
}
