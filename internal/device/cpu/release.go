package cpu

import (
	"github.com/dptrain/dptrain/internal/device/lattice"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/simd"
	"github.com/dptrain/dptrain/internal/random"
)

// releaseBlockSize is how many elements a task adds noise to and updates at once: a
// multiple of the generator's grain that stays in the first-level cache.
const releaseBlockSize = 8 * random.NormalBatch

// releaser adds noise to the sums and updates the weights. It does both block by block,
// so that each block goes through the cache once.
type releaser struct {
	sums    [][]float32    // by parameter; nil if the program is exact
	ints    []*lattice.Sum // by parameter; nil unless the program is exact
	state   plan.State
	blocks  []parameterBlock
	first   []int // [parameter] its first block; and the number of all
	task    func(i int, w *worker)
	current *plan.Release
	errors  []error
}

// parameterBlock is a range of one parameter's elements.
type parameterBlock struct {
	vector, from, to int
	slots            [][]float32
}

// prepare cuts the trained parameters of an executable into blocks.
func (r *releaser) prepare(m *Executable) {
	r.state = m.state
	if m.program.Exact {
		r.ints = m.contributions.sums
	}
	r.sums = make([][]float32, len(m.program.Parameters))
	for v, p := range m.program.Parameters {
		r.first = append(r.first, len(r.blocks))
		if p.ClippedSum < 0 {
			continue
		}
		if !m.program.Exact {
			r.sums[v] = m.Sum(v)
		}
		n := p.Shape.TotalSize()
		for from := 0; from < n; from += releaseBlockSize {
			b := parameterBlock{vector: v, from: from, to: min(from+releaseBlockSize, n)}
			for _, slot := range m.state.Slots[v] {
				b.slots = append(b.slots, slot[b.from:b.to])
			}
			r.blocks = append(r.blocks, b)
		}
	}
	r.first = append(r.first, len(r.blocks))
	r.errors = make([]error, len(r.blocks))
	for _, w := range m.pool.workers {
		w.floats(releaseBlockSize)
		if r.ints != nil {
			w.int64s = make([]int64, releaseBlockSize)
		}
	}
	r.task = func(i int, w *worker) {
		b := r.blocks[i]
		if from, to := r.part(r.current.Part, r.current.Parts); i >= from && i < to {
			r.errors[i] = r.process(b, w)
		} else if r.errors[i] = nil; r.ints != nil {
			r.ints[b.vector].Clear(b.from, b.to)
		} else {
			clear(r.sums[b.vector][b.from:b.to])
		}
	}
}

// part returns the first block of a part and the first one behind it.
func (r *releaser) part(part, parts int) (from, to int) {
	if parts == 0 {
		return 0, len(r.blocks)
	}
	return part * len(r.blocks) / parts, (part + 1) * len(r.blocks) / parts
}

// PartEnds returns where each of a number of parts ends in the elements of parameter v.
func (m *Executable) PartEnds(v, parts int) []int {
	r := &m.release
	ends := make([]int, parts)
	first, last := r.first[v], r.first[v+1]
	for part := range ends {
		if _, to := r.part(part, parts); to > first && last > first {
			ends[part] = r.blocks[min(to, last)-1].to
		}
	}
	return ends
}

// Release adds noise to the sums, updates the weights and clears the sums.
func (m *Executable) Release(now *plan.Release) error {
	m.release.current = now
	m.pool.run(len(m.release.blocks), m.release.task)
	for _, err := range m.release.errors {
		if err != nil {
			return err
		}
	}
	for _, sum := range m.release.ints {
		if sum != nil {
			sum.Restart()
		}
	}
	return nil
}

func (r *releaser) process(b parameterBlock, w *worker) error {
	now, v := r.current, b.vector
	var gradient []float32
	var err error
	if r.ints != nil {
		gradient = w.floats(releaseBlockSize)[:b.to-b.from]
		err = r.releaseInts(gradient, b, w)
	} else {
		gradient = r.sums[v][b.from:b.to]
		err = r.addNoise(gradient, b, w)
	}
	if err != nil {
		return err
	}
	weights := r.state.Weights[v][b.from:b.to]
	if err := updateWeights(now, v, weights, gradient, b.slots); err != nil {
		return err
	}
	if r.ints == nil {
		clear(gradient)
	}
	if now.Average.Decay > 0 {
		return now.Average.Apply(now.Step, r.state.Average[v][b.from:b.to], weights)
	}
	return nil
}

// addNoise adds noise to sums in float32 and scales them.
func (r *releaser) addNoise(sum []float32, b parameterBlock, w *worker) error {
	if ratio := float32(r.current.Ratio.Float()); ratio < 1 {
		simd.Scale(sum, sum, ratio)
	}
	if sigma := float32(r.current.Sigma[b.vector]); sigma > 0 {
		normals := w.floats(releaseBlockSize)[:len(sum)]
		if err := r.current.Source.Normals(normals, r.current.Stream(b.vector), uint64(b.from)); err != nil {
			return err
		}
		simd.Axpy(sum, normals, sigma)
	}
	simd.Scale(sum, sum, float32(r.current.Scale))
	return nil
}

// releaseInts writes integer sums with noise, scaled, to gradient. It sets the sums to zero.
func (r *releaser) releaseInts(gradient []float32, b parameterBlock, w *worker) error {
	v, sums := b.vector, w.int64s[:len(gradient)]
	if all := r.current.Sums; all != nil {
		copy(sums, all[v][b.from:b.to])
	} else {
		r.ints[v].Read(sums, b.from)
	}
	r.ints[v].Clear(b.from, b.to)
	return r.current.ReleaseInts(gradient, sums, v, b.from)
}

// updateWeights takes the optimiser's step. SGD, with or without momentum, uses vector
// kernels that round each operation as package optim does. It overwrites the gradient.
func updateWeights(now *plan.Release, v int, weights, gradient []float32, slots [][]float32) error {
	o, rate := now.OptimizerOf(v)
	if o.Kind != plan.SGD && o.Kind != plan.Momentum {
		return o.Apply(now.Step, rate, weights, gradient, slots)
	}
	if decay := float32(o.WeightDecay); decay != 0 {
		simd.Axpy(gradient, weights, decay)
	}
	if o.Kind == plan.Momentum {
		m := slots[0]
		simd.Scale(m, m, float32(o.Momentum))
		simd.Add(m, m, gradient)
		gradient = m
	}
	simd.Axpy(weights, gradient, -float32(rate))
	return nil
}
