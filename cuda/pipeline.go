//go:build gpu

package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/plan"
)

// pipeline is what a machine has besides when it computes factors itself: two slots of
// the host's memory, one being filled while the device works on the other. A
// microbatch is one graph.
type pipeline struct {
	slots      [2]pipelineSlot
	current    int
	copyStream *driver.Stream
	header     driver.Pointer // on the device: records, bounds, rows
	counts     driver.Pointer
	loss       driver.Pointer
	counters   []byte // page-locked: loss, counts
	groups     int
}

// pipelineSlot is one microbatch's memory.
type pipelineSlot struct {
	header  []byte // records, bounds of the groups, rows
	weights []byte
	ticket  []byte
	inputs  [][]byte // where the data set is not on the device
	staged  []driver.Pointer
	graph   *driver.Graph
	copied  *driver.Event
	done    *driver.Event
}

// maxDataSetShare is how much of the free memory a data set may take.
var maxDataSetShare = 0.5

// Configure makes factors the device's work. It is not to be called twice.
func (m *Executable) Configure(f clip.Formula, examples int, read func(dst [][]float32, rows []int) error) error {
	if m.front.runsOnHost() || m.back.runsOnHost() {
		return plan.ErrNoPipeline
	}
	p := &pipeline{groups: len(f.Groups)}
	m.pipeline = p
	sets, err := m.loadDataSet(examples, read)
	if err != nil {
		return err
	}
	if err := m.allocatePipeline(sets != nil); err != nil {
		return err
	}
	factors, err := m.clipFactorSteps(f)
	if err != nil {
		return err
	}
	steps := slices.Concat(m.front.steps, factors, m.back.steps)
	for i := range p.slots {
		s := &p.slots[i]
		taken, err := m.inputSteps(s, sets)
		if err != nil {
			return err
		}
		if s.graph, err = capture(m.device, append(taken, steps...)); err != nil {
			return err
		}
	}
	return m.device.Synchronize()
}

// loadDataSet copies the data set to the device; nil where it does not fit, or must not stay there.
func (m *Executable) loadDataSet(examples int, read func(dst [][]float32, rows []int) error) ([]driver.Pointer, error) {
	if read == nil {
		return nil, nil
	}
	total := 0
	for _, x := range m.inputs {
		total += 4 * len(x.values) / m.program.Batch * examples
	}
	free, _, err := m.device.MemoryInfo()
	if err != nil {
		return nil, err
	}
	if float64(total) > maxDataSetShare*float64(free) || examples > math.MaxInt32 {
		return nil, nil
	}
	sets, taken := make([]driver.Pointer, len(m.inputs)), len(m.owned)
	views := make([][]float32, len(m.inputs))
	for k, x := range m.inputs {
		sets[k], err = m.alloc(4 * len(x.values) / m.program.Batch * examples)
		if errors.Is(err, driver.ErrOutOfMemory) { // another program has taken it, or free parts of it are small
			return nil, m.freeAfter(taken)
		}
		if err != nil {
			return nil, err
		}
	}
	rows := make([]int, m.program.Batch)
	for from := 0; from < examples; from += len(rows) {
		n := min(len(rows), examples-from)
		for i := range n {
			rows[i] = from + i
		}
		for k, x := range m.inputs {
			views[k] = x.values[:len(x.values)/m.program.Batch*n]
		}
		if err := read(views, rows[:n]); err != nil {
			return nil, err
		}
		for k := range m.inputs {
			width := 4 * len(m.inputs[k].values) / m.program.Batch
			if err := m.device.CopyIn(sets[k]+driver.Pointer(from*width), bytesOf(views[k])); err != nil {
				return nil, err
			}
		}
		if err := m.device.Synchronize(); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

// allocatePipeline takes the slots' memory.
func (m *Executable) allocatePipeline(resident bool) (err error) {
	p := m.pipeline
	pinned := func(bytes int) (b []byte) {
		if err == nil {
			if b, err = m.device.AllocPinned(max(bytes, 4)); err == nil {
				clear(b)
				m.pinned = append(m.pinned, b)
			}
		}
		return b
	}
	taken := func(bytes int) (d driver.Pointer) {
		if err == nil {
			d, err = m.alloc(bytes)
		}
		return d
	}
	bytes := m.rowsOffset() + 4*m.program.Batch
	p.header, p.loss, p.counts = taken(bytes), taken(8), taken(4*(2+p.groups))
	p.counters = pinned(8 + 4*(2+p.groups))
	for i := range p.slots {
		s := &p.slots[i]
		s.header = pinned(bytes)
		if m.weights != nil {
			s.weights = pinned(len(m.weights.bytes))
		}
		if m.ticket != nil {
			s.ticket = pinned(len(m.ticket.bytes))
		}
		if err != nil {
			return err
		}
		if s.done, err = m.device.NewEvent(); err != nil {
			return err
		}
		if resident {
			continue
		}
		for _, x := range m.inputs {
			s.inputs = append(s.inputs, pinned(len(x.bytes)))
			s.staged = append(s.staged, taken(len(x.bytes)))
		}
		if err != nil {
			return err
		}
		if s.copied, err = m.device.NewEvent(); err != nil {
			return err
		}
	}
	if err == nil && !resident {
		p.copyStream, err = m.device.NewStream()
	}
	if err != nil {
		return err
	}
	return m.clearCounters()
}

func (m *Executable) clearCounters() error {
	if err := m.device.Zero(m.pipeline.loss, 8); err != nil {
		return err
	}
	return m.device.Zero(m.pipeline.counts, 4*(2+m.pipeline.groups))
}

// rowsOffset is where the rows begin in a command: after the number of records and
// the bounds.
func (m *Executable) rowsOffset() int { return 8 + 8*m.pipeline.groups }

// inputSteps is what brings a slot's microbatch where the network reads it.
func (m *Executable) inputSteps(s *pipelineSlot, sets []driver.Pointer) ([]step, error) {
	p := m.pipeline
	c := &compiler{Executable: m, code: &stepSequence{}, name: "take"}
	bring := func(to span, queue func() error) { c.code.steps = append(c.code.steps, copyInStep(to, queue)) }
	command := bytesAt(p.header, len(s.header))
	bring(command, func() error { return m.device.CopyIn(p.header, s.header) })
	if m.weights != nil {
		bring(m.weights.span(), func() error { return m.device.CopyIn(m.weights.device, s.weights[:4*len(m.weights.values)]) })
	}
	if m.ticket != nil {
		bring(m.ticket.span(), func() error { return m.device.CopyIn(m.ticket.device, s.ticket) })
	}
	for k, x := range m.inputs {
		if sets == nil {
			bring(x.span(), func() error { return m.device.Copy(x.device, s.staged[k], 4*len(x.values)) })
			continue
		}
		n := len(x.values)
		c.access = &access{reads: []span{command}, writes: []span{x.span()}}
		c.launch("take", blocks(n), threads, x.device, sets[k], p.header+driver.Pointer(m.rowsOffset()), p.header,
			int32(m.program.PerRecord), int32(n), int32(n/m.program.Batch))
	}
	return c.code.steps, c.err
}

// Rows is where the rows of the next microbatch's examples are put.
func (m *Executable) Rows() []int32 {
	if m.pipeline == nil || m.pipeline.copyStream != nil {
		return nil
	}
	b := m.pipeline.slots[m.pipeline.current].header[m.rowsOffset():]
	return unsafe.Slice((*int32)(unsafe.Pointer(&b[0])), m.program.Batch)
}

// Push queues the microbatch in the slot and waits for the other slot, whose memory
// the next one takes.
func (m *Executable) Push(records int, bounds []float64) error {
	p := m.pipeline
	s := &p.slots[p.current]
	if err := m.writeHeader(s, records, bounds); err != nil {
		return err
	}
	if p.copyStream != nil {
		if err := m.copyInputs(s); err != nil {
			return err
		}
		if err := m.device.WaitEvent(s.copied); err != nil {
			return err
		}
	}
	if err := m.launchSlot(s); err != nil {
		return err
	}
	p.current = 1 - p.current
	return p.slots[p.current].done.Synchronize()
}

// writeHeader says how many of the slot's records count, and the bounds of the groups.
func (m *Executable) writeHeader(s *pipelineSlot, records int, bounds []float64) error {
	if len(bounds) != m.pipeline.groups {
		return fmt.Errorf("cuda: bounds for %d groups, want %d", len(bounds), m.pipeline.groups)
	}
	binary.LittleEndian.PutUint32(s.header, uint32(records))
	for g, b := range bounds {
		binary.LittleEndian.PutUint64(s.header[8+8*g:], math.Float64bits(b))
	}
	return nil
}

// copyInputs copies a slot's examples beside the device's work.
func (m *Executable) copyInputs(s *pipelineSlot) error {
	for k, x := range s.inputs {
		if err := m.pipeline.copyStream.CopyIn(s.staged[k], x[:4*len(m.inputs[k].values)]); err != nil {
			return err
		}
	}
	return m.pipeline.copyStream.RecordEvent(s.copied)
}

// launchSlot queues the work on a slot.
func (m *Executable) launchSlot(s *pipelineSlot) error {
	if err := m.device.LaunchGraph(s.graph); err != nil {
		return err
	}
	return m.device.RecordEvent(s.done)
}

// FinishLot waits for the lot and gives what it counted, which is then forgotten.
func (m *Executable) FinishLot(t *plan.LotCounts) error {
	p, d := m.pipeline, m.device
	if err := d.CopyOut(p.counters[:8], p.loss); err != nil {
		return err
	}
	if err := d.CopyOut(p.counters[8:8+4*(2+p.groups)], p.counts); err != nil {
		return err
	}
	if err := d.Synchronize(); err != nil {
		return err
	}
	count := func(i int) int { return int(binary.LittleEndian.Uint32(p.counters[8+4*i:])) }
	t.Loss = math.Float64frombits(binary.LittleEndian.Uint64(p.counters))
	t.NonFinite, t.Unclipped = count(0), count(1)
	for g := range t.Within {
		t.Within[g] = count(2 + g)
	}
	return m.clearCounters()
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
