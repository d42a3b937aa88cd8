//go:build gpu

package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/internal/plan"
)

// Built tells whether this binary can use a GPU.
const Built = true

// Machine runs a program on a GPU. Its memory is laid out when it is made, so
// every launch has fixed arguments and a run is the replay of a few graphs.
type Machine struct {
	program *plan.Program
	options Options
	device  *driver.Device
	memory  []driver.Pointer // one a buffer
	owned   []driver.Pointer // what Close gives back
	pooled  int              // bytes of the memory that instructions scratch on
	front   code
	back    code
	inputs  []*mirror
	weights *mirror
	ticket  *mirror
	squared []*mirror
	factors []*mirror
	output  *mirror
	losses  *mirror
	pipe    *pipe              // nil where the host computes factors
	library []*driver.Prepared // what libraries compute
	locked  [][]byte           // page-locked memory that Close gives back
	state   plan.State
	trained []trained
	release releaser
}

// trained is the memory on the device behind one vector's State.
type trained struct {
	weights driver.Pointer
	average driver.Pointer // 0: none is kept
	slots   []driver.Pointer
	sum     driver.Pointer
	size    int
}

// mirror is page-locked memory of the host beside a buffer of the device.
type mirror struct {
	device driver.Pointer
	bytes  []byte
	values []float32
}

func (x *mirror) span() span { return floatsAt(x.device, len(x.values)) }

// New makes a program ready on a GPU.
func New(p *plan.Program, o optim.Optimizer, average bool, options Options) (plan.Machine, error) {
	d, err := open(options.Ordinal)
	if err != nil {
		return nil, err
	}
	if d.Arch() < 80 { // no tensor cores that take TF32 or bfloat16
		options.Precision = FP32
	}
	m := &Machine{program: p, options: options, device: d}
	if err := m.prepare(o, average); err != nil {
		m.Close()
		if errors.Is(err, driver.ErrMemory) {
			err = fmt.Errorf("%w: use a smaller --microbatch: %v", ErrMemory, err)
		}
		return nil, err
	}
	return m, nil
}

func (m *Machine) prepare(o optim.Optimizer, average bool) error {
	if err := m.allocate(o, average); err != nil {
		return err
	}
	if err := m.mirrors(); err != nil {
		return err
	}
	if err := m.compile(); err != nil {
		return err
	}
	if err := m.release.prepare(m, o); err != nil {
		return err
	}
	if err := m.Load(); err != nil {
		return err
	}
	return m.device.Wait()
}

// Scratch is what instructions work in.
func (m *Machine) Scratch() int { return m.pooled }

// alloc takes memory that Close gives back.
func (m *Machine) alloc(bytes int) (driver.Pointer, error) {
	p, err := m.device.Alloc(max(bytes, 4))
	if err == nil {
		m.owned = append(m.owned, p)
	}
	return p, err
}

// mostElements of a buffer leave room below 2^31 for where a kernel stands when it finds
// that it is past the end: a tile or a stride further on.
const mostElements = 1<<31 - 1<<24

// guard has temporary buffers, and what instructions scratch on, each in memory of its own
// on the emulated device, where the ends of that are guarded.
var guard = true

func (m *Machine) guarded() bool { return guard && m.device.Emulated() }

// allocate lays out every buffer; temporaries share the arena.
func (m *Machine) allocate(o optim.Optimizer, average bool) (err error) {
	p := m.program
	var arena driver.Pointer
	if !m.guarded() {
		if arena, err = m.alloc(4 * p.Arena); err != nil {
			return err
		}
	}
	m.memory = make([]driver.Pointer, len(p.Buffers))
	for i, b := range p.Buffers {
		if b.Size() > mostElements {
			return fmt.Errorf("%w: buffer %s has %d elements, and kernels count to %d", driver.ErrMemory, b.Name, b.Size(), mostElements)
		}
		switch {
		case b.Base != i:
			continue
		case b.Role == plan.Temporary && arena != 0:
			m.memory[i] = arena + driver.Pointer(4*b.Offset)
		default:
			if m.memory[i], err = m.alloc(4 * b.Size()); err != nil {
				return err
			}
		}
		switch {
		case b.Role == plan.Sum:
			err = m.device.Zero(m.memory[i], 4*b.Size())
		case b.Role == plan.Constant:
			err = m.upload(m.memory[i], bytesOf(b.Value))
		}
		if err != nil {
			return err
		}
	}
	for i, b := range p.Buffers {
		m.memory[i] = m.memory[b.Base]
	}
	return m.allocateState(o, average)
}

func (m *Machine) allocateState(o optim.Optimizer, average bool) error {
	for _, v := range m.program.Vectors {
		b := m.program.Buffers[v.Parameter]
		t := trained{weights: m.memory[v.Parameter], size: b.Size()}
		w := make([]float32, t.size)
		b.Begin(w)
		if err := m.upload(t.weights, bytesOf(w)); err != nil {
			return err
		}
		m.state.Weights = append(m.state.Weights, w)
		if v.Sum >= 0 {
			t.sum = m.memory[v.Sum]
			slots := make([][]float32, o.Slots())
			for s := range slots {
				p, err := m.alloc(4 * t.size)
				if err != nil {
					return err
				}
				t.slots = append(t.slots, p)
				slots[s] = make([]float32, t.size)
			}
			m.state.Slots = append(m.state.Slots, slots)
			if average {
				p, err := m.alloc(4 * t.size)
				if err != nil {
					return err
				}
				t.average = p
				m.state.Average = append(m.state.Average, make([]float32, t.size))
			}
		}
		m.trained = append(m.trained, t)
	}
	return nil
}

// upload copies what need not be page-locked and waits.
func (m *Machine) upload(to driver.Pointer, from []byte) error {
	if err := m.device.CopyIn(to, from); err != nil {
		return err
	}
	err := m.device.Wait()
	runtime.KeepAlive(from) // the copy may still read it where the driver takes it as it lies
	return err
}

// mirrors gives the host its view of what it fills and reads each microbatch.
func (m *Machine) mirrors() (err error) {
	made := map[int]*mirror{}
	mirrored := func(id int) *mirror {
		if id < 0 || err != nil {
			return nil
		}
		base := m.program.Buffers[id].Base
		if x := made[base]; x != nil {
			return x
		}
		x := &mirror{device: m.memory[id]}
		made[base] = x
		if x.bytes, err = m.device.Pinned(max(4, 4*m.program.Buffers[id].Size())); err == nil {
			m.locked = append(m.locked, x.bytes)
			clear(x.bytes)
			x.values = floats(x.bytes)[:m.program.Buffers[id].Size()]
		}
		return x
	}
	for i, b := range m.program.Buffers {
		if b.Role == plan.Input && b.Base == i {
			m.inputs = append(m.inputs, mirrored(i))
		}
	}
	m.weights = mirrored(m.program.Find(plan.Weights, 0))
	m.ticket = mirrored(m.program.Find(plan.Ticket, 0))
	m.output = mirrored(m.program.Find(plan.Output, 0))
	m.losses = mirrored(m.program.Find(plan.Losses, 0))
	for _, v := range m.program.Vectors {
		m.squared = append(m.squared, mirrored(v.Squared))
		m.factors = append(m.factors, mirrored(v.Factors))
	}
	return err
}

// in and out queue a mirror's copy.
func (m *Machine) in(x *mirror) error {
	if len(x.values) == 0 {
		return nil
	}
	return m.device.CopyIn(x.device, x.bytes[:4*len(x.values)])
}

func (m *Machine) out(x *mirror) error {
	if len(x.values) == 0 {
		return nil
	}
	return m.device.CopyOut(x.bytes[:4*len(x.values)], x.device)
}

func (x *mirror) view() []float32 {
	if x == nil {
		return nil
	}
	return x.values
}

// Input is where column k of the next microbatch is put.
func (m *Machine) Input(k int) []float32 {
	if m.pipe != nil && m.pipe.lane != nil {
		return floats(m.pipe.slots[m.pipe.at].inputs[k])[:len(m.inputs[k].values)]
	}
	return m.inputs[k].view()
}

// RecordWeights is where the examples' weights within their records are put.
func (m *Machine) RecordWeights() []float32 {
	if m.pipe != nil && m.weights != nil {
		return floats(m.pipe.slots[m.pipe.at].weights)[:len(m.weights.values)]
	}
	return m.weights.view()
}

// Ticket is where the examples' tickets are put.
func (m *Machine) Ticket() []float32 {
	if m.pipe != nil && m.ticket != nil {
		return floats(m.pipe.slots[m.pipe.at].ticket)[:len(m.ticket.values)]
	}
	return m.ticket.view()
}

// Squared are the squared norms of vector v.
func (m *Machine) Squared(v int) []float32 { return m.squared[v].view() }

// Factors is where the factors of vector v are put.
func (m *Machine) Factors(v int) []float32 { return m.factors[v].view() }

// Output is what the network answered.
func (m *Machine) Output() []float32 { return m.output.view() }

// Losses are the examples' losses.
func (m *Machine) Losses() []float32 { return m.losses.view() }

// Forward copies the microbatch in, goes through the network and back, and
// copies the squared norms and answers out.
func (m *Machine) Forward() error {
	if err := m.front.run(m.device); err != nil {
		return err
	}
	return m.device.Wait()
}

// Add copies the factors in and adds clipped sums to the accumulators. It
// returns while the device still works; factors may be filled again after the
// next Forward.
func (m *Machine) Add() error { return m.back.run(m.device) }

// Release adds noise to the sums, moves the weights and clears the sums.
func (m *Machine) Release(now *plan.Release) error { return m.release.run(now) }

// State is the host's copy of weights, averages and optimiser memory.
func (m *Machine) State() plan.State { return m.state }

// Sum is the accumulator of vector v.
func (m *Machine) Sum(v int) ([]float32, error) {
	x := make([]float32, m.trained[v].size)
	if err := m.device.CopyOut(bytesOf(x), m.trained[v].sum); err != nil {
		return nil, err
	}
	return x, m.device.Wait()
}

// Sync copies the state from the device.
func (m *Machine) Sync() error {
	err := m.eachState(func(host []float32, device driver.Pointer) error { return m.device.CopyOut(bytesOf(host), device) })
	if err != nil {
		return err
	}
	return m.device.Wait()
}

// Load copies the state to the device.
func (m *Machine) Load() error {
	err := m.eachState(func(host []float32, device driver.Pointer) error { return m.device.CopyIn(device, bytesOf(host)) })
	if err != nil {
		return err
	}
	return m.device.Wait()
}

func (m *Machine) eachState(f func(host []float32, device driver.Pointer) error) error {
	for v, t := range m.trained {
		if err := f(m.state.Weights[v], t.weights); err != nil {
			return err
		}
		if t.sum == 0 {
			continue
		}
		if t.average != 0 {
			if err := f(m.state.Average[v], t.average); err != nil {
				return err
			}
		}
		for s, slot := range t.slots {
			if err := f(m.state.Slots[v][s], slot); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close gives memory and graphs back.
func (m *Machine) Close() error {
	err := m.device.Wait()
	m.front.close()
	m.back.close()
	m.release.close()
	m.pipe.close()
	for _, p := range m.library {
		p.Close()
	}
	for _, b := range m.locked {
		err = first(err, m.device.FreePinned(b))
	}
	m.locked = nil
	return first(err, m.giveBack(0))
}

// giveBack frees the memory that was taken after the first so many pieces.
func (m *Machine) giveBack(after int) (err error) {
	for _, p := range m.owned[after:] {
		err = first(err, m.device.Free(p))
	}
	m.owned = m.owned[:after]
	return err
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func bytesOf[T float32 | int32](x []T) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}

func floats(b []byte) []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4) }
