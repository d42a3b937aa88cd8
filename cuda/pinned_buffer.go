//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/plan"
)

// pinnedBuffer is page-locked memory of the host beside a buffer of the device.
type pinnedBuffer struct {
	device driver.Pointer
	bytes  []byte
	values []float32
}

func (x *pinnedBuffer) span() span { return floatsAt(x.device, len(x.values)) }

func (x *pinnedBuffer) slice() []float32 {
	if x == nil {
		return nil
	}
	return x.values
}

// mirrors gives the host its view of what it fills and reads each microbatch.
func (m *Executable) mirrors() (err error) {
	made := map[int]*pinnedBuffer{}
	mirrored := func(id int) *pinnedBuffer {
		if id < 0 || err != nil {
			return nil
		}
		base := m.program.Buffers[id].Base
		if x := made[base]; x != nil {
			return x
		}
		x := &pinnedBuffer{device: m.memory[id]}
		made[base] = x
		if x.bytes, err = m.device.AllocPinned(max(4, 4*m.program.Buffers[id].Size())); err == nil {
			m.pinned = append(m.pinned, x.bytes)
			clear(x.bytes)
			x.values = floats(x.bytes)[:m.program.Buffers[id].Size()]
		}
		return x
	}
	for i, b := range m.program.Buffers {
		if b.Role == plan.RoleInput && b.Base == i {
			m.inputs = append(m.inputs, mirrored(i))
		}
	}
	m.weights = mirrored(m.program.FindBuffer(plan.RoleExampleWeights, 0))
	m.ticket = mirrored(m.program.FindBuffer(plan.RoleMaskSeed, 0))
	m.output = mirrored(m.program.FindBuffer(plan.RoleOutput, 0))
	m.losses = mirrored(m.program.FindBuffer(plan.RoleLosses, 0))
	for _, v := range m.program.Parameters {
		m.squared = append(m.squared, mirrored(v.SquaredNorms))
		m.factors = append(m.factors, mirrored(v.ClipFactors))
	}
	return err
}

// in and out queue a mirror's copy.
func (m *Executable) in(x *pinnedBuffer) error {
	if len(x.values) == 0 {
		return nil
	}
	return m.device.CopyIn(x.device, x.bytes[:4*len(x.values)])
}

func (m *Executable) out(x *pinnedBuffer) error {
	if len(x.values) == 0 {
		return nil
	}
	return m.device.CopyOut(x.bytes[:4*len(x.values)], x.device)
}

// Input is where column k of the next microbatch is put.
func (m *Executable) Input(k int) []float32 {
	if m.pipeline != nil && m.pipeline.copyStream != nil {
		return floats(m.pipeline.slots[m.pipeline.current].inputs[k])[:len(m.inputs[k].values)]
	}
	return m.inputs[k].slice()
}

// ExampleWeights is where the examples' weights within their records are put.
func (m *Executable) ExampleWeights() []float32 {
	if m.pipeline != nil && m.weights != nil {
		return floats(m.pipeline.slots[m.pipeline.current].weights)[:len(m.weights.values)]
	}
	return m.weights.slice()
}

// MaskSeed is where the examples' tickets are put.
func (m *Executable) MaskSeed() []float32 {
	if m.pipeline != nil && m.ticket != nil {
		return floats(m.pipeline.slots[m.pipeline.current].ticket)[:len(m.ticket.values)]
	}
	return m.ticket.slice()
}

// SquaredNorms are the squared norms of vector v.
func (m *Executable) SquaredNorms(v int) []float32 { return m.squared[v].slice() }

// ClipFactors is where the factors of vector v are put.
func (m *Executable) ClipFactors(v int) []float32 { return m.factors[v].slice() }

// Output is what the network answered.
func (m *Executable) Output() []float32 { return m.output.slice() }

// Losses are the examples' losses.
func (m *Executable) Losses() []float32 { return m.losses.slice() }
