//go:build gpu

package cuda

import (
	"cmp"
	"encoding/binary"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/cuda/driver"
)

// clipFormula is laid out as in kernels/factors.cu.
type clipFormula struct {
	Groups, Vectors, Weights  driver.Pointer
	Squared, Factors          driver.Pointer
	GroupCount, VectorCount   int64
	Inverse, Margin, Smallest float64
}

type clipGroup struct {
	First, Count    int32
	Absolute, Gamma float64
}

// uploadTable copies numbers of any fixed layout to the device.
func uploadTable[T any](m *Executable, rows []T) (driver.Pointer, error) {
	content, err := binary.Append(nil, binary.LittleEndian, rows)
	if err != nil {
		return 0, err
	}
	p, err := m.alloc(len(content))
	if err != nil || len(content) == 0 {
		return p, err
	}
	return p, m.upload(p, content)
}

// clipFactorSteps turn squared norms into factors, and count; then the losses are added up.
func (m *Executable) clipFactorSteps(f clip.Formula) ([]step, error) {
	p := m.pipeline
	laid := clipFormula{GroupCount: int64(len(f.Groups)), VectorCount: int64(len(m.program.Parameters)),
		Inverse: f.Inverse, Margin: f.Margin, Smallest: f.Smallest}
	var groups []clipGroup
	var vectors []int32
	var weights []float64
	for _, g := range f.Groups {
		groups = append(groups, clipGroup{int32(len(vectors)), int32(len(g.Parameters)), g.Absolute, g.Gamma})
		for i, v := range g.Parameters {
			vectors, weights = append(vectors, int32(v)), append(weights, g.Weights[i])
		}
	}
	var squared, factors []uint64
	for v := range m.program.Parameters {
		factors = append(factors, uint64(m.factors[v].device))
		if len(f.Groups) > 0 {
			squared = append(squared, uint64(m.squared[v].device))
		}
	}
	var err error
	keep := func(p driver.Pointer, e error) driver.Pointer {
		err = cmp.Or(err, e)
		return p
	}
	laid.Groups, laid.Vectors, laid.Weights = keep(uploadTable(m, groups)), keep(uploadTable(m, vectors)), keep(uploadTable(m, weights))
	laid.Squared, laid.Factors = keep(uploadTable(m, squared)), keep(uploadTable(m, factors))
	if err != nil {
		return nil, err
	}
	c := &compiler{Executable: m, code: &stepSequence{}, name: "factors"}
	command := bytesAt(p.header, m.rowsOffset())
	c.access = &access{reads: []span{command}, writes: []span{bytesAt(p.counts, 4*(2+p.groups))}}
	for v := range m.program.Parameters {
		c.access.writes = append(c.access.writes, m.factors[v].span())
		if len(f.Groups) > 0 {
			c.access.reads = append(c.access.reads, m.squared[v].span())
		}
	}
	n := m.program.Records
	c.launch("factors", dim{uint32(ceil(n, 128)), 1, 1}, dim{128, 1, 1}, laid, p.header, p.header+8, int32(n), p.counts)
	if m.losses != nil {
		c.access = &access{reads: []span{command, m.losses.span()}, writes: []span{bytesAt(p.loss, 8)}}
		var weights driver.Pointer
		if m.weights != nil {
			weights = m.weights.device
			c.access.reads = append(c.access.reads, m.weights.span())
		}
		c.launch("mean_losses", dim{1, 1, 1}, threads, p.loss, m.losses.device, weights, p.header,
			int32(m.program.PerRecord), int32(len(m.losses.values)/m.program.Batch))
	}
	return c.code.steps, c.err
}
