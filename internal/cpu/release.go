package cpu

import (
	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/internal/simd"
	"github.com/dptrain/dptrain/noise"
)

// block is how many elements are noised and moved at once: whole grains of the
// generator, few enough to stay in the first cache.
const block = 8 * noise.Grain

// releaser noises sums and moves weights, block by block, each memory touched
// once.
type releaser struct {
	machine *Machine
	tasks   []span
	task    func(i int, w *worker)
	now     *plan.Release
	errors  []error
}

// span is one block of one vector.
type span struct {
	vector, from, to int
	slots            [][]float32
}

func (r *releaser) prepare() {
	for v, p := range r.machine.program.Parameters {
		if p.ClippedSum < 0 {
			continue
		}
		n := p.Shape.TotalSize()
		for from := 0; from < n; from += block {
			s := span{vector: v, from: from, to: min(from+block, n)}
			for _, slot := range r.machine.state.Slots[v] {
				s.slots = append(s.slots, slot[s.from:s.to])
			}
			r.tasks = append(r.tasks, s)
		}
	}
	r.errors = make([]error, len(r.tasks))
	for _, w := range r.machine.pool.workers {
		w.floats(block)
	}
	r.task = func(i int, w *worker) { r.errors[i] = r.block(r.tasks[i], w) }
}

// Release adds noise to the sums, moves the weights and clears the sums.
func (m *Machine) Release(now *plan.Release) error {
	m.release.now = now
	m.pool.each(len(m.release.tasks), m.release.task)
	for _, err := range m.release.errors {
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *releaser) block(s span, w *worker) error {
	now, v := r.now, s.vector
	sum := r.machine.Sum(v)[s.from:s.to]
	if sigma := float32(now.Sigma[v]); sigma > 0 {
		normals := w.floats(block)[:len(sum)]
		stream := noise.Stream{Purpose: noise.Release, Lot: now.Lot, Vector: uint32(v)}
		if err := now.Source.Normals(normals, stream, uint64(s.from)); err != nil {
			return err
		}
		simd.Axpy(sum, normals, sigma)
	}
	simd.Scale(sum, sum, float32(now.Scale))
	weights := r.machine.state.Weights[v][s.from:s.to]
	if err := move(now, v, weights, sum, s.slots); err != nil {
		return err
	}
	clear(sum)
	if now.Average.Decay > 0 {
		return now.Average.Apply(now.Step, r.machine.state.Average[v][s.from:s.to], weights)
	}
	return nil
}

// move is the optimiser's step. SGD, with momentum or without, is written in
// vectors, each operation rounded as in optim; the gradient is overwritten.
func move(now *plan.Release, v int, weights, gradient []float32, slots [][]float32) error {
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
