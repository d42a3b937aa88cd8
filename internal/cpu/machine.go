package cpu

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/plan"
)

// Machine runs a program on the CPU.
type Machine struct {
	program *plan.Program
	pool    *pool
	memory  [][]float32 // one slice a buffer
	front   []func()
	back    []func()
	inputs  [][]float32
	state   plan.State
	release releaser
}

// New makes a program ready. Threads 0 means one a processor; results do not
// depend on it. What there is no memory for is [ErrMemory].
func New(p *plan.Program, o plan.Optimizer, average bool, threads int) (*Machine, error) {
	bytes := size(p, o, average)
	room := roomFor(bytes)
	if err := fits(bytes, room); err != nil {
		return nil, err
	}
	m := &Machine{program: p, pool: newPool(threads)}
	m.allocate(o, average)
	m.program = p.WithoutInitialValues()
	c := m.compiler()
	m.front, m.back = c.all(p.Front), c.all(p.Back)
	if err := fits(bytes+m.pool.room(), room); err != nil {
		m.pool.close()
		return nil, err
	}
	m.draw(p) // what was refused has drawn nothing
	m.pool.furnish()
	m.release.machine = m
	m.release.prepare()
	return m, nil
}

func (m *Machine) compiler() compiler {
	c := compiler{
		Machine: m, chosen: map[winners][]int32{}, places: map[winners][]uint8{}, gradients: map[gradientOf][]float32{}, filters: new([]float32),
		grams: countGrams(m.program), kept: map[rowsIn][]float32{}, norms: map[rowsIn][]float64{}, tanhs: map[int][]float32{},
		seen: map[attended][]float32{}, left: map[int]call{}, early: map[int]bool{},
	}
	c.last = c.channelsLast()
	return c
}

// allocate lays out every buffer; temporaries share the arena.
func (m *Machine) allocate(o plan.Optimizer, average bool) {
	lasting := 0
	for i, b := range m.program.Buffers {
		if b.Base == i && b.Role != plan.RoleTemporary && !b.Borrowed {
			lasting += lines(b.Size())
		}
	}
	arena, rest := zeros(m.program.Arena), zeros(lasting)
	m.memory = make([][]float32, len(m.program.Buffers))
	for i, b := range m.program.Buffers {
		n := b.Size()
		switch {
		case b.Base != i:
			continue
		case b.Role == plan.RoleTemporary:
			m.memory[i] = arena[b.Offset:][:n:n]
		case b.Borrowed:
			m.memory[i] = b.Value
		default:
			m.memory[i] = rest[:n:n]
			copy(m.memory[i], b.Value)
			rest = rest[lines(n):]
		}
	}
	for i, b := range m.program.Buffers {
		m.memory[i] = m.memory[b.Base]
		if b.Role == plan.RoleInput {
			m.inputs = append(m.inputs, m.memory[i])
		}
	}
	for _, v := range m.program.Parameters {
		w := m.memory[v.Value]
		m.state.Weights = append(m.state.Weights, w)
		if v.ClippedSum < 0 {
			continue
		}
		slots := make([][]float32, o.Slots())
		for s := range slots {
			slots[s] = zeros(len(w))
		}
		m.state.Slots = append(m.state.Slots, slots)
		if average {
			m.state.Average = append(m.state.Average, zeros(len(w)))
		}
	}
}

// draw writes the starting values that were in no memory.
func (m *Machine) draw(p *plan.Program) {
	for i, b := range p.Buffers {
		if b.Draw != nil {
			b.Draw(m.memory[i])
		}
	}
}

// only is the memory of the one buffer of a role, if there is one.
func (m *Machine) only(r plan.Role) []float32 {
	if id := m.program.FindBuffer(r, 0); id >= 0 {
		return m.memory[id]
	}
	return nil
}

// Input is where column k of the next microbatch is put.
func (m *Machine) Input(k int) []float32 { return m.inputs[k] }

// ExampleWeights is where the examples' weights within their records are put.
func (m *Machine) ExampleWeights() []float32 { return m.only(plan.RoleExampleWeights) }

// MaskSeed is where the examples' tickets are put.
func (m *Machine) MaskSeed() []float32 { return m.only(plan.RoleMaskSeed) }

// SquaredNorms are the squared norms of vector v.
func (m *Machine) SquaredNorms(v int) []float32 {
	if id := m.program.Parameters[v].SquaredNorms; id >= 0 {
		return m.memory[id]
	}
	return nil
}

// ClipFactors is where the factors of vector v are put.
func (m *Machine) ClipFactors(v int) []float32 { return m.memory[m.program.Parameters[v].ClipFactors] }

// Output is what the network answered.
func (m *Machine) Output() []float32 { return m.only(plan.RoleOutput) }

// Losses are the examples' losses.
func (m *Machine) Losses() []float32 { return m.only(plan.RoleLosses) }

// Sum is the accumulator of vector v.
func (m *Machine) Sum(v int) []float32 { return m.memory[m.program.Parameters[v].ClippedSum] }

// Forward goes through the network and back, up to the squared norms.
func (m *Machine) Forward() error { return run(m.front) }

// AddClippedSums adds clipped sums to the accumulators.
func (m *Machine) AddClippedSums() error { return run(m.back) }

// run turns a kernel's panic, which is a bug or a foreign operation's failure,
// into an error: the run must end with its ledger closed.
func run(code []func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cpu: an operation failed: %v", told(p))
		}
	}()
	for _, step := range code {
		step()
	}
	return nil
}

// State is the weights, averages and optimiser memory themselves.
func (m *Machine) State() plan.State { return m.state }

// SyncState does nothing: State is always up to date.
func (m *Machine) SyncState() error { return nil }

// LoadState does nothing: State is the memory that is computed with.
func (m *Machine) LoadState() error { return nil }

// WorkspaceBytes is what threads work in.
func (m *Machine) WorkspaceBytes() int { return m.pool.room() }

// Close ends the threads.
func (m *Machine) Close() error {
	m.pool.close()
	return nil
}
