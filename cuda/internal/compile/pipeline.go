//go:build gpu

package compile

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/clipping"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// pipeline runs microbatches whose clip factors the device computes. It has two slots in
// the host's memory: the host fills one while the device works on the other. A microbatch
// is one graph.
type pipeline struct {
	program *plan.Program
	device  *driver.Device
	memory  *deviceMemory
	host    *hostBuffers
	groups  int

	contributions *contributions // nil unless the program is exact
	counters      *lotCounters
	release       *releaser

	slots      [2]pipelineSlot
	current    int
	copyStream *driver.Stream // nil where the data set is on the device
	header     driver.Pointer // the current slot's header on the device
}

// pipelineSlot is the host's memory of one microbatch.
type pipelineSlot struct {
	header   []byte // number of records, bounds of the groups, rows
	weights  []byte
	maskSeed []byte
	rounding []byte   // the input of the contributions
	inputs   [][]byte // where the data set is not on the device
	staged   []driver.Pointer
	graph    *driver.Graph
	copied   *driver.Event
	done     *driver.Event
}

// maxDataSetShare is the share of the free memory that a data set may take.
var maxDataSetShare = 0.5

// prepare allocates the slots and captures their graphs.
func (p *pipeline) prepare(f clipping.Formula, front, back []step, examples int, read func(dst [][]float32, rows []int) error) error {
	sets, err := p.loadDataSet(examples, read)
	if err != nil {
		return err
	}
	if err := p.allocate(sets != nil); err != nil {
		return err
	}
	factors, err := p.clipFactorSteps(f)
	if err != nil {
		return err
	}
	steps := slices.Concat(front, factors, back)
	for i := range p.slots {
		s := &p.slots[i]
		inputs, err := p.inputSteps(s, sets)
		if err != nil {
			return err
		}
		if s.graph, err = capture(p.device, append(inputs, steps...)); err != nil {
			return err
		}
	}
	return p.device.Synchronize()
}

// loadDataSet copies the data set to the device, one allocation per input. It returns nil
// where the data set does not fit, or where read is nil.
func (p *pipeline) loadDataSet(examples int, read func(dst [][]float32, rows []int) error) ([]driver.Pointer, error) {
	if read == nil {
		return nil, nil
	}
	inputs, batch := p.host.inputs, p.program.Batch
	total := 0
	for _, x := range inputs {
		total += 4 * len(x.values) / batch * examples
	}
	free, _, err := p.device.MemoryInfo()
	if err != nil {
		return nil, err
	}
	if float64(total) > maxDataSetShare*float64(free) || examples > math.MaxInt32 {
		return nil, nil
	}
	sets, before := make([]driver.Pointer, len(inputs)), len(p.memory.allocations)
	views := make([][]float32, len(inputs))
	for k, x := range inputs {
		sets[k], err = p.memory.alloc(4 * len(x.values) / batch * examples)
		if errors.Is(err, driver.ErrOutOfMemory) { // another program allocated it, or free memory is fragmented
			return nil, p.memory.freeAfter(before)
		}
		if err != nil {
			return nil, err
		}
	}
	rows := make([]int, batch)
	for from := 0; from < examples; from += len(rows) {
		n := min(len(rows), examples-from)
		for i := range n {
			rows[i] = from + i
		}
		for k, x := range inputs {
			views[k] = x.values[:len(x.values)/batch*n]
		}
		if err := read(views, rows[:n]); err != nil {
			return nil, err
		}
		for k, x := range inputs {
			width := 4 * len(x.values) / batch
			if err := p.device.CopyIn(sets[k]+driver.Pointer(from*width), bytesOf(views[k])); err != nil {
				return nil, err
			}
		}
		if err := p.device.Synchronize(); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

// allocate allocates the slots' memory. resident means that the data set is on the device.
func (p *pipeline) allocate(resident bool) (err error) {
	pinned := func(bytes int) (b []byte) {
		if err == nil {
			b, err = p.memory.allocPinned(bytes)
		}
		return b
	}
	alloc := func(bytes int) (d driver.Pointer) {
		if err == nil {
			d, err = p.memory.alloc(bytes)
		}
		return d
	}
	bytes := p.rowsOffset() + 4*p.program.Batch
	p.header = alloc(bytes)
	for i := range p.slots {
		s := &p.slots[i]
		s.header = pinned(bytes)
		if p.host.weights != nil {
			s.weights = pinned(len(p.host.weights.bytes))
		}
		if p.host.maskSeed != nil {
			s.maskSeed = pinned(len(p.host.maskSeed.bytes))
		}
		if p.contributions != nil {
			s.rounding = pinned(p.contributions.inputBytes())
		}
		if err != nil {
			return err
		}
		if s.done, err = p.device.NewEvent(); err != nil {
			return err
		}
		if resident {
			continue
		}
		for _, x := range p.host.inputs {
			s.inputs = append(s.inputs, pinned(len(x.bytes)))
			s.staged = append(s.staged, alloc(len(x.bytes)))
		}
		if err != nil {
			return err
		}
		if s.copied, err = p.device.NewEvent(); err != nil {
			return err
		}
	}
	if err == nil && !resident {
		p.copyStream, err = p.device.NewStream()
	}
	return err
}

// rowsOffset is the offset of the rows in a header: after the number of records and the
// bounds.
func (p *pipeline) rowsOffset() int { return 8 + 8*p.groups }

// inputSteps copy a slot's microbatch to the network's input buffers.
func (p *pipeline) inputSteps(s *pipelineSlot, sets []driver.Pointer) ([]step, error) {
	d := p.device
	c := newStepCompiler(d, "load_examples")
	copyIn := func(to span, queue func() error) { *c.steps = append(*c.steps, copyInStep(to, queue)) }
	header := bytesAt(p.header, len(s.header))
	copyIn(header, func() error { return d.CopyIn(p.header, s.header) })
	if w := p.host.weights; w != nil {
		copyIn(w.span(), func() error { return d.CopyIn(w.device, s.weights[:4*len(w.values)]) })
	}
	if m := p.host.maskSeed; m != nil {
		copyIn(m.span(), func() error { return d.CopyIn(m.device, s.maskSeed) })
	}
	if p.contributions != nil {
		*c.steps = append(*c.steps, p.contributions.copyIn(s.rounding))
	}
	for k, x := range p.host.inputs {
		if sets == nil {
			copyIn(x.span(), func() error { return d.Copy(x.device, s.staged[k], 4*len(x.values)) })
			continue
		}
		n := len(x.values)
		c.access = &access{reads: []span{header}, writes: []span{x.span()}}
		c.launch("load_examples", blocks(n), threads, x.device, sets[k], p.header+driver.Pointer(p.rowsOffset()), p.header,
			int32(p.program.PerRecord), int32(n), int32(n/p.program.Batch))
	}
	return *c.steps, c.err
}

func (p *pipeline) slot() *pipelineSlot { return &p.slots[p.current] }

// rows is the memory for the data-set rows of the current slot's examples.
func (p *pipeline) rows() []int32 {
	b := p.slot().header[p.rowsOffset():]
	return unsafe.Slice((*int32)(unsafe.Pointer(&b[0])), p.program.Batch)
}

// push queues the current slot, completes the release of the previous lot and waits for the other slot.
// The device does not wait for the host meanwhile. If the host changes weights of the release, the slot
// is queued again: it has computed with the former weights, and settle has cleared what it added.
func (p *pipeline) push(records int, bounds []float64) error {
	s := p.slot()
	if err := p.writeHeader(s, records, bounds); err != nil {
		return err
	}
	if p.copyStream != nil {
		if err := p.copyInputs(s); err != nil {
			return err
		}
		if err := p.device.WaitEvent(s.copied); err != nil {
			return err
		}
	}
	if err := p.launch(s); err != nil {
		return err
	}
	changed, err := p.release.settle()
	if err == nil && changed {
		err = p.launch(s)
	}
	if err != nil {
		return err
	}
	p.current = 1 - p.current
	return p.slot().done.Synchronize()
}

// writeHeader writes the number of valid records, the groups' bounds and what the contributions
// read.
func (p *pipeline) writeHeader(s *pipelineSlot, records int, bounds []float64) error {
	if len(bounds) != p.groups {
		return fmt.Errorf("cuda: got bounds for %d groups, want %d", len(bounds), p.groups)
	}
	binary.LittleEndian.PutUint32(s.header, uint32(records))
	for g, b := range bounds {
		binary.LittleEndian.PutUint64(s.header[8+8*g:], math.Float64bits(b))
	}
	if p.contributions != nil {
		p.contributions.write(s.rounding)
	}
	return nil
}

// copyInputs copies a slot's examples while the device works.
func (p *pipeline) copyInputs(s *pipelineSlot) error {
	for k, x := range s.inputs {
		if err := p.copyStream.CopyIn(s.staged[k], x[:4*len(p.host.inputs[k].values)]); err != nil {
			return err
		}
	}
	return p.copyStream.RecordEvent(s.copied)
}

// launch launches a slot's graph.
func (p *pipeline) launch(s *pipelineSlot) error {
	if err := p.device.LaunchGraph(s.graph); err != nil {
		return err
	}
	return p.device.RecordEvent(s.done)
}

// finishLot waits for the lot, reads its counts and clears them.
func (p *pipeline) finishLot(t *plan.LotCounts) error {
	if _, err := p.release.settle(); err != nil {
		return err
	}
	c := p.counters
	if err := cmp.Or(c.queueCopy(), p.device.Synchronize()); err != nil {
		return err
	}
	if p.contributions != nil {
		p.contributions.addCounts()
	}
	t.Loss, t.NonFinite, t.Unclipped = c.readLoss(), c.readRecords(0), c.readRecords(1)
	for g := range t.Within {
		t.Within[g] = c.readRecords(2 + g)
	}
	return nil
}

func (p *pipeline) close() {
	if p == nil {
		return
	}
	for i := range p.slots {
		p.slots[i].graph.Close()
		p.slots[i].copied.Close()
		p.slots[i].done.Close()
	}
	p.copyStream.Close()
}
