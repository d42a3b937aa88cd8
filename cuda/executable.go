//go:build gpu

package cuda

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/plan"
)

// Built tells whether this binary can use a GPU.
const Built = true

// Executable runs a program on a GPU. Its memory is laid out when it is made, so
// every launch has fixed arguments and a run is the replay of a few graphs.
type Executable struct {
	program      *plan.Program
	options      Options
	device       *driver.Device
	memory       []driver.Pointer // one a buffer
	owned        []driver.Pointer // what Close gives back
	scratchBytes int              // bytes of the memory that instructions scratch on
	front        stepSequence
	back         stepSequence
	inputs       []*pinnedBuffer
	weights      *pinnedBuffer
	ticket       *pinnedBuffer
	squared      []*pinnedBuffer
	factors      []*pinnedBuffer
	output       *pinnedBuffer
	losses       *pinnedBuffer
	pipeline     *pipeline              // nil where the host computes factors
	libraryCalls []*driver.PreparedCall // what libraries compute
	pinned       [][]byte               // page-locked memory that Close gives back
	state        plan.State
	parameters   []parameterMemory
	release      releaser
}

// New makes a program ready on a GPU.
func New(p *plan.Program, o plan.Optimizer, average bool, options Options) (plan.Executable, error) {
	d, err := open(options.Ordinal)
	if err != nil {
		return nil, err
	}
	if d.Arch() < 80 { // no tensor cores that take TF32 or bfloat16
		options.Precision = FP32
	}
	m := &Executable{program: p, options: options, device: d}
	if err := m.prepare(o, average); err != nil {
		m.Close()
		if errors.Is(err, driver.ErrOutOfMemory) {
			err = fmt.Errorf("%w: %v", plan.ErrOutOfMemory, err)
		}
		return nil, err
	}
	return m, nil
}

func (m *Executable) prepare(o plan.Optimizer, average bool) error {
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
	if err := m.LoadState(); err != nil {
		return err
	}
	return m.device.Synchronize()
}

// WorkspaceBytes is what instructions work in.
func (m *Executable) WorkspaceBytes() int { return m.scratchBytes }

// Forward copies the microbatch in, goes through the network and back, and
// copies the squared norms and answers out.
func (m *Executable) Forward() error {
	if err := m.front.run(m.device); err != nil {
		return err
	}
	return m.device.Synchronize()
}

// AddClippedSums copies the factors in and adds clipped sums to the accumulators. It
// returns while the device still works; factors may be filled again after the
// next Forward.
func (m *Executable) AddClippedSums() error { return m.back.run(m.device) }

// Release adds noise to the sums, moves the weights and clears the sums.
func (m *Executable) Release(now *plan.Release) error { return m.release.run(now) }

// Close gives memory and graphs back.
func (m *Executable) Close() error {
	err := m.device.Synchronize()
	m.front.close()
	m.back.close()
	m.pipeline.close()
	for _, p := range m.libraryCalls {
		p.Close()
	}
	for _, b := range m.pinned {
		err = cmp.Or(err, m.device.FreePinned(b))
	}
	m.pinned = nil
	return cmp.Or(err, m.freeAfter(0))
}
