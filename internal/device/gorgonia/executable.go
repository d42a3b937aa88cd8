package gorgonia

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// Executable implements plan.Executable.
type Executable struct {
	inputs   []*variable
	weights  *variable // of the examples in their records; nil if records are examples
	maskSeed *variable // nil if the network reads no mask seeds
	params   []*variable
	factors  []*variable
	squared  [][]float32
	output   []float32
	losses   []float32
	observed [][]float32
	sums     [][]float32
	normals  []float32
	state    plan.State
	front    *nodeList
	back     *nodeList

	contributions *contributions // nil unless the program is exact
}

var _ plan.Executable = (*Executable)(nil)

// New prepares a network. Without norms, the caller sets every clip factor.
func New(p *perexample.PrivateNetwork, norms bool, o plan.Optimizer, average bool) (*Executable, error) {
	m := &Executable{squared: make([][]float32, len(p.Parameters))}
	for _, in := range p.Inputs {
		m.inputs = append(m.inputs, newVariable(in))
	}
	for _, b := range p.BatchNorms {
		m.inputs = append(m.inputs, newVariable(b.Mean), newVariable(b.Variance))
	}
	if p.ExampleWeights != nil {
		m.weights = newVariable(p.ExampleWeights)
	}
	if p.MaskSeed != nil {
		m.maskSeed = newVariable(p.MaskSeed)
	}
	values := map[*G.Node]G.Value{}
	m.front, m.back = &nodeList{values: values}, &nodeList{values: values}
	for i, v := range p.Parameters {
		param := newVariable(v.Node)
		if s, later := v.Node.Value().(*perexample.InitialValue); later {
			s.Draw(param.host)
		} else if err := op.CopyValue(param.host, v.Node.Value()); err != nil {
			return nil, fmt.Errorf("parameter %s: %w", v.Node.Name(), err)
		}
		size := len(param.host)
		m.params = append(m.params, param)
		m.factors = append(m.factors, newVariable(v.ClipFactors))
		if norms {
			m.squared[i] = m.front.addResult(v.SquaredNorms)
		}
		sum, err := clippedSumNode(v)
		if err != nil {
			return nil, err
		}
		m.back.addResult(sum)
		m.sums = append(m.sums, make([]float32, size))
		m.state.Weights = append(m.state.Weights, param.host)
		slots := make([][]float32, o.Slots())
		for s := range slots {
			slots[s] = make([]float32, size)
		}
		m.state.Slots = append(m.state.Slots, slots)
		if average {
			m.state.Average = append(m.state.Average, make([]float32, size))
		}
		m.normals = make([]float32, max(len(m.normals), size))
	}
	if p.Output != nil {
		m.output = m.front.addResult(p.Output)
	}
	if p.Losses != nil {
		m.losses = m.front.addResult(p.Losses)
	}
	for _, b := range p.BatchNorms {
		for _, n := range b.Observed {
			m.observed = append(m.observed, m.front.addResult(n))
		}
	}
	if err := m.front.collect(nil); err != nil {
		return nil, err
	}
	return m, m.back.collect(m.front)
}

// Input is the memory for column k of the next microbatch.
func (m *Executable) Input(k int) []float32 { return m.inputs[k].host }

// ExampleWeights is the memory for the examples' weights within their records.
func (m *Executable) ExampleWeights() []float32 {
	if m.weights == nil {
		return nil
	}
	return m.weights.host
}

// MaskSeed is the memory for the examples' mask seeds.
func (m *Executable) MaskSeed() []float32 {
	if m.maskSeed == nil {
		return nil
	}
	return m.maskSeed.host
}

// SquaredNorms are the squared gradient norms of parameter i.
func (m *Executable) SquaredNorms(v int) []float32 { return m.squared[v] }

// ClipFactors is the memory for the clip factors of parameter i.
func (m *Executable) ClipFactors(v int) []float32 { return m.factors[v].host }

// Output is the network's output.
func (m *Executable) Output() []float32 { return m.output }

// Losses are the examples' losses.
func (m *Executable) Losses() []float32 { return m.losses }

// Observed is what the i-th statistic behind running statistics reads.
func (m *Executable) Observed(i int) []float32 { return m.observed[i] }

// Sum is the accumulator of parameter i.
func (m *Executable) Sum(v int) []float32 { return m.sums[v] }

// Forward runs the forward and backward pass up to the squared norms.
func (m *Executable) Forward() error {
	clear(m.front.values)
	for _, leaves := range [][]*variable{m.inputs, m.params, {m.weights, m.maskSeed}} {
		for _, l := range leaves {
			l.bind(m.front.values)
		}
	}
	return m.front.run()
}

// Contributions are what an exact program reads in addition to clip factors.
func (m *Executable) Contributions() *plan.Contributions {
	if m.contributions == nil {
		return nil
	}
	return m.contributions.Contributions
}

// IntegerSum is the accumulator of parameter i of an exact program.
func (m *Executable) IntegerSum(i int) []int64 { return m.contributions.sums[i] }

// AddClippedSums adds clipped sums to the accumulators.
func (m *Executable) AddClippedSums() error {
	if m.contributions != nil {
		return m.addContributions()
	}
	if err := m.runBack(); err != nil {
		return err
	}
	for v, sum := range m.sums {
		for i, x := range m.back.hosts[v] {
			sum[i] += x
		}
	}
	return nil
}

// runBack computes the clipped sums of the microbatch.
func (m *Executable) runBack() error {
	for _, l := range m.factors {
		l.bind(m.back.values)
	}
	return m.back.run()
}

// Release adds noise to the sums, updates the weights and clears the sums.
func (m *Executable) Release(now *plan.Release) error {
	for v, sum := range m.sums {
		if err := m.addNoise(now, v); err != nil {
			return err
		}
		o, rate := now.OptimizerOf(v)
		if err := o.Apply(now.Step, rate, m.state.Weights[v], sum, m.state.Slots[v][:min(o.Slots(), len(m.state.Slots[v]))]); err != nil {
			return err
		}
		clear(sum)
		if now.Average.Decay > 0 {
			if err := now.Average.Apply(now.Step, m.state.Average[v], m.state.Weights[v]); err != nil {
				return err
			}
		}
	}
	return nil
}

// addNoise makes the sum of a parameter its noisy gradient.
func (m *Executable) addNoise(now *plan.Release, v int) error {
	sum := m.sums[v]
	if m.contributions != nil {
		defer clear(m.contributions.sums[v])
		return now.ReleaseInts(sum, m.contributions.sums[v], v, 0)
	}
	normals := m.normals[:len(sum)]
	clear(normals)
	sigma, scale := float32(now.Sigma[v]), float32(now.Scale)
	if sigma > 0 {
		if err := now.Source.Normals(normals, now.Stream(v), 0); err != nil {
			return err
		}
	}
	ratio := float32(now.Ratio.Float())
	for i, z := range normals {
		sum[i] = (sum[i]*ratio + sigma*z) * scale
	}
	return nil
}

// State is the weights, averages and optimiser state themselves.
func (m *Executable) State() plan.State { return m.state }

// SyncState does nothing: State is always up to date.
func (m *Executable) SyncState() error { return nil }

// LoadState does nothing: State is bound before every run.
func (m *Executable) LoadState() error { return nil }

// WorkspaceBytes is 0: what Gorgonia's operations allocate is not known.
func (m *Executable) WorkspaceBytes() int { return 0 }

// Close does nothing.
func (m *Executable) Close() error { return nil }
