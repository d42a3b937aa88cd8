//go:build gpu

package compile

import (
	"cmp"
	"encoding/binary"
	"math"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/clipping"
)

// clipFormula is struct Formula of kernels/factors.cu.
type clipFormula struct {
	Groups, Parameters, Weights driver.Pointer
	Squared, Factors            driver.Pointer
	GroupCount, ParameterCount  int64
	Inverse, Margin, Smallest   float64
}

// clipGroup is struct Group of kernels/factors.cu.
type clipGroup struct {
	First, Count    int32
	Absolute, Gamma float64
}

// lotCounters are the numbers of a lot that kernels add up and the host reads at its end. They lie side by
// side, so that one copy reads all of them: the loss in float64; in integers of 32 bits the parts of
// contributions that were rounded again and that were omitted, the records that a block of admit handled
// because not all their parts fit, and an unused number; the records that are not finite, the unclipped
// ones, and those within the bound of each group.
type lotCounters struct {
	device *driver.Device
	memory driver.Pointer
	host   []byte // page-locked copy
}

const firstPartCount, firstRecordCount = 8, 24 // offsets

func newLotCounters(m *deviceMemory, groups int) (c *lotCounters, err error) {
	c = &lotCounters{device: m.device}
	bytes := firstRecordCount + 4*(2+groups)
	if c.memory, err = m.alloc(bytes); err != nil {
		return nil, err
	}
	if c.host, err = m.allocPinned(bytes); err != nil {
		return nil, err
	}
	return c, c.clear()
}

func (c *lotCounters) loss() span { return bytesAt(c.memory, firstPartCount) }

func (c *lotCounters) parts() span {
	return bytesAt(c.memory+firstPartCount, firstRecordCount-firstPartCount)
}

func (c *lotCounters) records() span {
	return bytesAt(c.memory+firstRecordCount, len(c.host)-firstRecordCount)
}

func (c *lotCounters) clear() error { return c.device.Zero(c.memory, len(c.host)) }

// queueCopy copies the counters to the host and clears them. The host reads the copy after it has waited.
func (c *lotCounters) queueCopy() error {
	return cmp.Or(c.device.CopyOut(c.host, c.memory), c.clear())
}

func (c *lotCounters) readLoss() float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(c.host))
}

func (c *lotCounters) readPart(i int) int {
	return int(binary.LittleEndian.Uint32(c.host[firstPartCount+4*i:]))
}

func (c *lotCounters) readRecords(i int) int {
	return int(binary.LittleEndian.Uint32(c.host[firstRecordCount+4*i:]))
}

// clipFactorSteps compute clip factors from squared norms, count records, and add up the
// losses.
func (p *pipeline) clipFactorSteps(f clipping.Formula) ([]step, error) {
	m, h := p.memory, p.host
	formula := clipFormula{GroupCount: int64(len(f.Groups)), ParameterCount: int64(len(p.program.Parameters)),
		Inverse: f.Inverse, Margin: f.Margin, Smallest: f.Smallest}
	var groups []clipGroup
	var parameters []int32
	var weights []float64
	for _, g := range f.Groups {
		groups = append(groups, clipGroup{int32(len(parameters)), int32(len(g.Parameters)), g.Absolute, g.Gamma})
		for i, v := range g.Parameters {
			parameters, weights = append(parameters, int32(v)), append(weights, g.Weights[i])
		}
	}
	var squared, factors []uint64
	for v := range p.program.Parameters {
		factors = append(factors, uint64(h.factors[v].device))
		if len(f.Groups) > 0 {
			squared = append(squared, uint64(h.squared[v].device))
		}
	}
	var err error
	keep := func(p driver.Pointer, e error) driver.Pointer {
		err = cmp.Or(err, e)
		return p
	}
	formula.Groups, formula.Parameters, formula.Weights = keep(uploadTable(m, groups)),
		keep(uploadTable(m, parameters)), keep(uploadTable(m, weights))
	formula.Squared, formula.Factors = keep(uploadTable(m, squared)), keep(uploadTable(m, factors))
	if err != nil {
		return nil, err
	}
	c := newStepCompiler(p.device, "clip_factors")
	header := bytesAt(p.header, p.rowsOffset())
	c.access = &access{reads: []span{header}, writes: []span{p.counters.records()}}
	for v := range p.program.Parameters {
		c.access.writes = append(c.access.writes, h.factors[v].span())
		if len(f.Groups) > 0 {
			c.access.reads = append(c.access.reads, h.squared[v].span())
		}
	}
	n := p.program.Records
	c.launch("clip_factors", dim{uint32(ceil(n, 128)), 1, 1}, dim{128, 1, 1}, formula, p.header, p.header+8, int32(n), p.counters.records().from)
	if h.losses != nil {
		c.access = &access{reads: []span{header, h.losses.span()}, writes: []span{p.counters.loss()}}
		var weights driver.Pointer
		if h.weights != nil {
			weights = h.weights.device
			c.access.reads = append(c.access.reads, h.weights.span())
		}
		c.launch("mean_losses", dim{1, 1, 1}, threads, p.counters.loss().from, h.losses.device, weights, p.header,
			int32(p.program.PerRecord), int32(len(h.losses.values)/p.program.Batch))
	}
	return *c.steps, c.err
}
