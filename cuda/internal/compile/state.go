//go:build gpu

package compile

import (
	"cmp"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// parameterMemory is the device's memory of one parameter's training state.
type parameterMemory struct {
	weights driver.Pointer
	average driver.Pointer   // 0 if no average is kept
	slots   []driver.Pointer // of own
	sum     driver.Pointer   // 0 if the parameter is frozen
	size    int
	own     elements // those that this rank releases
}

// trainingState is the training state of all parameters, on the device and on the host.
type trainingState struct {
	memory     *deviceMemory
	parameters []parameterMemory
	host       plan.State
}

// newTrainingState allocates the state, of this rank's part only the optimizer's numbers, and initializes the weights.
func newTrainingState(p *plan.Program, o plan.Optimizer, average bool, m *deviceMemory, l *bufferLayout,
	parts *rankParts) (*trainingState, error) {
	s := &trainingState{memory: m}
	for i, v := range p.Parameters {
		b := p.Buffers[v.Value]
		t := parameterMemory{weights: l.address[v.Value], size: b.Size()}
		w := make([]float32, t.size)
		b.Initialize(w)
		if err := m.upload(t.weights, bytesOf(w)); err != nil {
			return nil, err
		}
		s.host.Weights = append(s.host.Weights, w)
		if v.ClippedSum >= 0 {
			t.sum, t.own = l.address[v.ClippedSum], parts.own(i, t.size)
			slots := make([][]float32, o.Slots())
			for k := range slots {
				slots[k] = make([]float32, t.size)
				p, err := m.alloc(4 * t.own.size())
				if err != nil {
					return nil, err
				}
				t.slots = append(t.slots, p)
			}
			s.host.Slots = append(s.host.Slots, slots)
			if average {
				p, err := m.alloc(4 * t.size)
				if err != nil {
					return nil, err
				}
				t.average = p
				s.host.Average = append(s.host.Average, make([]float32, t.size))
			}
		}
		s.parameters = append(s.parameters, t)
	}
	return s, nil
}

// readSum copies the accumulator of parameter i, floats or integers, from the device; zeros where it is not
// trained.
func readSum[T float32 | int64](e *Executable, i int, dst []T) error {
	if err := e.completeRelease(); err != nil {
		return err
	}
	sum := e.state.parameters[i].sum
	if sum == 0 {
		clear(dst)
		return nil
	}
	return cmp.Or(e.device.CopyOut(bytesOf(dst), sum), e.device.Synchronize())
}

func (s *trainingState) copyOut() error {
	return s.copyEach(func(host []float32, device driver.Pointer) error {
		return s.memory.device.CopyOut(bytesOf(host), device)
	})
}

func (s *trainingState) copyIn() error {
	return s.copyEach(func(host []float32, device driver.Pointer) error {
		return s.memory.device.CopyIn(device, bytesOf(host))
	})
}

// copyEach copies each tensor of the state and waits. Of the optimizer's numbers it copies those of this rank's part.
func (s *trainingState) copyEach(copy func(host []float32, device driver.Pointer) error) error {
	for v, t := range s.parameters {
		if err := copy(s.host.Weights[v], t.weights); err != nil {
			return err
		}
		if t.sum == 0 {
			continue
		}
		if t.average != 0 {
			if err := copy(s.host.Average[v], t.average); err != nil {
				return err
			}
		}
		for i, slot := range t.slots {
			if err := copy(s.host.Slots[v][i][t.own.from:t.own.to], slot); err != nil {
				return err
			}
		}
	}
	return s.memory.device.Synchronize()
}
