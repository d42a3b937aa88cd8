//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/plan"
)

// parameterMemory is the memory on the device behind one vector's State.
type parameterMemory struct {
	weights driver.Pointer
	average driver.Pointer // 0: none is kept
	slots   []driver.Pointer
	sum     driver.Pointer
	size    int
}

func (m *Executable) allocateState(o plan.Optimizer, average bool) error {
	for _, v := range m.program.Parameters {
		b := m.program.Buffers[v.Value]
		t := parameterMemory{weights: m.memory[v.Value], size: b.Size()}
		w := make([]float32, t.size)
		b.Initialize(w)
		if err := m.upload(t.weights, bytesOf(w)); err != nil {
			return err
		}
		m.state.Weights = append(m.state.Weights, w)
		if v.ClippedSum >= 0 {
			t.sum = m.memory[v.ClippedSum]
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
		m.parameters = append(m.parameters, t)
	}
	return nil
}

// State is the host's copy of weights, averages and optimiser memory.
func (m *Executable) State() plan.State { return m.state }

// Sum is the accumulator of vector v.
func (m *Executable) Sum(v int) ([]float32, error) {
	x := make([]float32, m.parameters[v].size)
	if err := m.device.CopyOut(bytesOf(x), m.parameters[v].sum); err != nil {
		return nil, err
	}
	return x, m.device.Synchronize()
}

// SyncState copies the state from the device.
func (m *Executable) SyncState() error {
	return m.eachState(func(host []float32, device driver.Pointer) error { return m.device.CopyOut(bytesOf(host), device) })
}

// LoadState copies the state to the device.
func (m *Executable) LoadState() error {
	return m.eachState(func(host []float32, device driver.Pointer) error { return m.device.CopyIn(device, bytesOf(host)) })
}

// eachState copies each part of the state and waits.
func (m *Executable) eachState(copying func(host []float32, device driver.Pointer) error) error {
	for v, t := range m.parameters {
		if err := copying(m.state.Weights[v], t.weights); err != nil {
			return err
		}
		if t.sum == 0 {
			continue
		}
		if t.average != 0 {
			if err := copying(m.state.Average[v], t.average); err != nil {
				return err
			}
		}
		for s, slot := range t.slots {
			if err := copying(m.state.Slots[v][s], slot); err != nil {
				return err
			}
		}
	}
	return m.device.Synchronize()
}
