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

// pipe is what a machine has besides when it computes factors itself: two slots of
// the host's memory, one being filled while the device works on the other. A
// microbatch is one graph.
type pipe struct {
	slots   [2]slot
	at      int
	lane    *driver.Lane
	command driver.Pointer // on the device: records, bounds, rows
	counts  driver.Pointer
	loss    driver.Pointer
	tally   []byte // page-locked: loss, counts
	groups  int
}

// slot is one microbatch's memory.
type slot struct {
	command []byte // records, bounds of the groups, rows
	weights []byte
	ticket  []byte
	inputs  [][]byte // where the data set is not on the device
	staged  []driver.Pointer
	graph   *driver.Graph
	copied  *driver.Event
	done    *driver.Event
}

// residentShare is how much of the free memory a data set may take.
var residentShare = 0.5

// Configure makes factors the device's work. It is not to be called twice.
func (m *Machine) Configure(f clip.Formula, examples int, read func(dst [][]float32, rows []int) error) error {
	if m.front.host() || m.back.host() {
		return plan.ErrNoPipeline
	}
	p := &pipe{groups: len(f.Groups)}
	m.pipe = p
	sets, err := m.hold(examples, read)
	if err != nil {
		return err
	}
	if err := m.pipeMemory(sets != nil); err != nil {
		return err
	}
	factors, err := m.factorSteps(f)
	if err != nil {
		return err
	}
	steps := slices.Concat(m.front.steps, factors, m.back.steps)
	for i := range p.slots {
		s := &p.slots[i]
		taken, err := m.take(s, sets)
		if err != nil {
			return err
		}
		if s.graph, err = capture(m.device, append(taken, steps...)); err != nil {
			return err
		}
	}
	return m.device.Wait()
}

// hold copies the data set to the device; nil where it does not fit, or must not stay there.
func (m *Machine) hold(examples int, read func(dst [][]float32, rows []int) error) ([]driver.Pointer, error) {
	if read == nil {
		return nil, nil
	}
	total := 0
	for _, x := range m.inputs {
		total += 4 * len(x.values) / m.program.Batch * examples
	}
	free, _, err := m.device.Memory()
	if err != nil {
		return nil, err
	}
	if float64(total) > residentShare*float64(free) || examples > math.MaxInt32 {
		return nil, nil
	}
	sets, taken := make([]driver.Pointer, len(m.inputs)), len(m.owned)
	views := make([][]float32, len(m.inputs))
	for k, x := range m.inputs {
		sets[k], err = m.alloc(4 * len(x.values) / m.program.Batch * examples)
		if errors.Is(err, driver.ErrMemory) { // another program has taken it, or free parts of it are small
			return nil, m.giveBack(taken)
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
		if err := m.device.Wait(); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

// pipeMemory takes the slots' memory.
func (m *Machine) pipeMemory(resident bool) (err error) {
	p := m.pipe
	pinned := func(bytes int) (b []byte) {
		if err == nil {
			if b, err = m.device.Pinned(max(bytes, 4)); err == nil {
				clear(b)
				m.locked = append(m.locked, b)
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
	bytes := m.rowsAt() + 4*m.program.Batch
	p.command, p.loss, p.counts = taken(bytes), taken(8), taken(4*(2+p.groups))
	p.tally = pinned(8 + 4*(2+p.groups))
	for i := range p.slots {
		s := &p.slots[i]
		s.command = pinned(bytes)
		if m.weights != nil {
			s.weights = pinned(len(m.weights.bytes))
		}
		if m.ticket != nil {
			s.ticket = pinned(len(m.ticket.bytes))
		}
		if err != nil {
			return err
		}
		if s.done, err = m.device.Event(); err != nil {
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
		if s.copied, err = m.device.Event(); err != nil {
			return err
		}
	}
	if err == nil && !resident {
		p.lane, err = m.device.Lane()
	}
	if err != nil {
		return err
	}
	return m.clearTally()
}

func (m *Machine) clearTally() error {
	if err := m.device.Zero(m.pipe.loss, 8); err != nil {
		return err
	}
	return m.device.Zero(m.pipe.counts, 4*(2+m.pipe.groups))
}

// rowsAt is where the rows begin in a command: after the number of records and
// the bounds.
func (m *Machine) rowsAt() int { return 8 + 8*m.pipe.groups }

// take is what brings a slot's microbatch where the network reads it.
func (m *Machine) take(s *slot, sets []driver.Pointer) ([]step, error) {
	p := m.pipe
	c := &compiler{Machine: m, code: &code{}, name: "take"}
	bring := func(to span, queue func() error) { c.code.steps = append(c.code.steps, copying(to, queue)) }
	command := bytesAt(p.command, len(s.command))
	bring(command, func() error { return m.device.CopyIn(p.command, s.command) })
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
		c.launch("take", blocks(n), threads, x.device, sets[k], p.command+driver.Pointer(m.rowsAt()), p.command,
			int32(m.program.PerRecord), int32(n), int32(n/m.program.Batch))
	}
	return c.code.steps, c.err
}

// Rows is where the rows of the next microbatch's examples are put.
func (m *Machine) Rows() []int32 {
	if m.pipe == nil || m.pipe.lane != nil {
		return nil
	}
	b := m.pipe.slots[m.pipe.at].command[m.rowsAt():]
	return unsafe.Slice((*int32)(unsafe.Pointer(&b[0])), m.program.Batch)
}

// Push queues the microbatch in the slot and waits for the other slot, whose memory
// the next one takes.
func (m *Machine) Push(records int, bounds []float64) error {
	p := m.pipe
	s := &p.slots[p.at]
	if err := m.command(s, records, bounds); err != nil {
		return err
	}
	if p.lane != nil {
		if err := m.send(s); err != nil {
			return err
		}
		if err := m.device.Follow(s.copied); err != nil {
			return err
		}
	}
	if err := m.start(s); err != nil {
		return err
	}
	p.at = 1 - p.at
	return p.slots[p.at].done.Wait()
}

// command says how many of the slot's records count, and the bounds of the groups.
func (m *Machine) command(s *slot, records int, bounds []float64) error {
	if len(bounds) != m.pipe.groups {
		return fmt.Errorf("cuda: bounds for %d groups, want %d", len(bounds), m.pipe.groups)
	}
	binary.LittleEndian.PutUint32(s.command, uint32(records))
	for g, b := range bounds {
		binary.LittleEndian.PutUint64(s.command[8+8*g:], math.Float64bits(b))
	}
	return nil
}

// send copies a slot's examples beside the device's work.
func (m *Machine) send(s *slot) error {
	for k, x := range s.inputs {
		if err := m.pipe.lane.CopyIn(s.staged[k], x[:4*len(m.inputs[k].values)]); err != nil {
			return err
		}
	}
	return m.pipe.lane.Mark(s.copied)
}

// start queues the work on a slot.
func (m *Machine) start(s *slot) error {
	if err := m.device.Run(s.graph); err != nil {
		return err
	}
	return m.device.Mark(s.done)
}

// FinishLot waits for the lot and gives what it counted, which is then forgotten.
func (m *Machine) FinishLot(t *plan.LotCounts) error {
	p, d := m.pipe, m.device
	if err := d.CopyOut(p.tally[:8], p.loss); err != nil {
		return err
	}
	if err := d.CopyOut(p.tally[8:8+4*(2+p.groups)], p.counts); err != nil {
		return err
	}
	if err := d.Wait(); err != nil {
		return err
	}
	count := func(i int) int { return int(binary.LittleEndian.Uint32(p.tally[8+4*i:])) }
	t.Loss = math.Float64frombits(binary.LittleEndian.Uint64(p.tally))
	t.NonFinite, t.Unclipped = count(0), count(1)
	for g := range t.Within {
		t.Within[g] = count(2 + g)
	}
	return m.clearTally()
}

func (p *pipe) close() {
	if p == nil {
		return
	}
	for i := range p.slots {
		p.slots[i].graph.Close()
		p.slots[i].copied.Close()
		p.slots[i].done.Close()
	}
	p.lane.Close()
}
