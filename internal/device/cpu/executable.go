package cpu

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/internal/device/lattice"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/half"
	"github.com/dptrain/dptrain/internal/host/memory"
)

// Executable is a program that is ready to run on the CPU.
type Executable struct {
	program *plan.Program
	pool    *pool
	memory  [][]float32    // one slice per buffer
	halves  []half.Numbers // of the buffers with numbers of 16 bits
	front   []func()
	back    []func()
	inputs  [][]float32
	state   plan.State
	release releaser

	contributions *contributions // nil unless the program is exact
	sumOrder      []int          // the trained parameters, in the order in which back completes their sums
	final         func(n int)    // of AddLastClippedSums
}

// New prepares a program. The number of threads does not change results; 0 means
// GOMAXPROCS. The error is [plan.ErrOutOfMemory] if the host lacks memory.
func New(p *plan.Program, o plan.Optimizer, average bool, threads int) (*Executable, error) {
	return newExecutable(prepared(p), o, average, threads)
}

func newExecutable(p *plan.Program, o plan.Optimizer, average bool, threads int) (*Executable, error) {
	return newExecutableWithin(availableMemory(size(p, o, average)), p, o, average, threads)
}

// newExecutableWithin prepares a program if it fits in a room.
func newExecutableWithin(room memory.Headroom, p *plan.Program, o plan.Optimizer, average bool, threads int) (*Executable, error) {
	bytes := size(p, o, average)
	if err := checkMemory(bytes, room); err != nil {
		return nil, err
	}
	p = p.Annotated()
	m := &Executable{program: p, pool: newPool(threads)}
	m.allocate(o, average)
	m.program = p.WithoutValues()
	l := newLowering(m.program, m.memory, m.pool)
	l.contributions, l.halves = m.contributions, m.halves
	m.front, m.back = l.lowerAll(m.program.Front), l.lowerAll(m.program.Back)
	if m.contributions != nil {
		m.reportFinalSums()
	}
	if err := checkMemory(bytes+m.WorkspaceBytes(), room); err != nil {
		m.pool.close()
		return nil, err
	}
	m.drawValues(p) // only now: a refused program must not consume random numbers
	m.pool.allocateScratch()
	if m.contributions != nil {
		m.contributions.scratch.allocate()
	}
	m.release.prepare(m)
	return m, nil
}

// allocate lays out every buffer. Temporaries share the arena.
func (m *Executable) allocate(o plan.Optimizer, average bool) {
	lasting := 0
	for i, b := range m.program.Buffers {
		if b.Base == i && b.Role != plan.RoleTemporary && !b.Borrowed && b.Shared == nil && !m.isIntegerSum(b) {
			lasting += roundToLines(b.Size())
		}
	}
	arena, rest := memory.Zeros[float32](m.program.Arena), memory.Zeros[float32](lasting)
	m.memory, m.halves = make([][]float32, len(m.program.Buffers)), make([]half.Numbers, len(m.program.Buffers))
	for i, b := range m.program.Buffers {
		n := b.Size()
		switch {
		case b.Base != i:
			continue
		case b.Role == plan.RoleTemporary:
			m.memory[i] = arena[b.Offset:][:n:n]
		case b.Borrowed:
			m.memory[i] = b.Value
		case b.Half:
			m.halves[i] = b.Shared.SharedHalfMemory()
		case b.Shared != nil:
			m.memory[i] = b.Shared.SharedMemory()
		case m.isIntegerSum(b):
		default:
			m.memory[i] = rest[:n:n]
			copy(m.memory[i], b.Value)
			rest = rest[roundToLines(n):]
		}
	}
	if m.program.Exact {
		m.contributions = &contributions{Admission: plan.Admission{Contributions: plan.NewContributions(m.program), L1: m.program.L1}}
		for _, v := range m.program.Parameters {
			var sum *lattice.Sum
			if v.ClippedSum >= 0 {
				sum = lattice.NewSum(memory.Zeros[int32](v.Shape.TotalSize()))
			}
			m.contributions.sums = append(m.contributions.sums, sum)
		}
	}
	for i, b := range m.program.Buffers {
		m.memory[i], m.halves[i] = m.memory[b.Base], m.halves[b.Base]
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
			slots[s] = memory.Zeros[float32](len(w))
		}
		m.state.Slots = append(m.state.Slots, slots)
		if average {
			m.state.Average = append(m.state.Average, memory.Zeros[float32](len(w)))
		}
	}
}

// isIntegerSum reports whether a buffer is an accumulator of integers.
func (m *Executable) isIntegerSum(b plan.Buffer) bool {
	return m.program.Exact && b.Role == plan.RoleClippedSum
}

// drawValues writes the initial values that the program draws instead of storing. Those that programs share are in memory if
// another program has drawn them.
func (m *Executable) drawValues(p *plan.Program) {
	for i, b := range p.Buffers {
		switch {
		case b.Draw != nil:
			b.Draw(m.memory[i])
		case b.Half:
			b.Shared.SharedHalf()
		case b.Shared != nil:
			b.Shared.Shared()
		}
	}
}

// bufferOf returns the memory of the first buffer of a role, nil if there is none.
func (m *Executable) bufferOf(r plan.Role) []float32 {
	if id := m.program.FindBuffer(r, 0); id >= 0 {
		return m.memory[id]
	}
	return nil
}

// Input returns the buffer for column k of the next microbatch.
func (m *Executable) Input(k int) []float32 { return m.inputs[k] }

// ExampleWeights returns the buffer for the examples' weights within their records.
func (m *Executable) ExampleWeights() []float32 { return m.bufferOf(plan.RoleExampleWeights) }

// MaskSeed returns the buffer for the examples' mask seeds.
func (m *Executable) MaskSeed() []float32 { return m.bufferOf(plan.RoleMaskSeed) }

// SquaredNorms returns the squared per-record norms of parameter v, nil if the program
// does not compute them.
func (m *Executable) SquaredNorms(v int) []float32 {
	if id := m.program.Parameters[v].SquaredNorms; id >= 0 {
		return m.memory[id]
	}
	return nil
}

// ClipFactors returns the buffer for the clip factors of parameter v.
func (m *Executable) ClipFactors(v int) []float32 {
	return m.memory[m.program.Parameters[v].ClipFactors]
}

// Output returns the network's output.
func (m *Executable) Output() []float32 { return m.bufferOf(plan.RoleOutput) }

// Losses returns the examples' losses.
func (m *Executable) Losses() []float32 { return m.bufferOf(plan.RoleLosses) }

// Observed returns what the i-th statistic behind running statistics reads.
func (m *Executable) Observed(i int) []float32 {
	if id := m.program.FindBuffer(plan.RoleObserved, i); id >= 0 {
		return m.memory[id]
	}
	return nil
}

// Sum returns the accumulator of parameter v.
func (m *Executable) Sum(v int) []float32 { return m.memory[m.program.Parameters[v].ClippedSum] }

// Forward runs the forward pass, the backward pass and the squared norms.
func (m *Executable) Forward() error { return runSteps(m.front) }

// Contributions returns what an exact program reads in addition to clip factors.
func (m *Executable) Contributions() *plan.Contributions {
	if m.contributions == nil {
		return nil
	}
	return m.contributions.Contributions
}

// IntegerSum returns a copy of the sums of parameter v of an exact program.
func (m *Executable) IntegerSum(v int) []int64 {
	s := m.contributions.sums[v]
	sums := make([]int64, s.Len())
	s.Read(sums, 0)
	return sums
}

// ReadSum writes the sums of parameter v of an exact program to dst.
func (m *Executable) ReadSum(v int, dst []int64) error { return m.ReadSums(v, 0, dst) }

// ReadSums writes the sums of parameter v of an exact program from an element on to dst.
func (m *Executable) ReadSums(v, from int, dst []int64) error {
	m.contributions.sums[v].Read(dst, from)
	return nil
}

// SumOrder returns the trained parameters in the order in which back completes their sums.
func (m *Executable) SumOrder() []int { return m.sumOrder }

// AddClippedSums adds the clipped sums to the accumulators.
func (m *Executable) AddClippedSums() error {
	if m.contributions == nil {
		return runSteps(m.back)
	}
	m.contributions.Begin()
	defer m.contributions.End()
	return runSteps(m.back)
}

// AddLastClippedSums adds the clipped sums of a lot's last microbatch, and reports which sums are final.
func (m *Executable) AddLastClippedSums(final func(n int)) error {
	m.final = final
	defer func() { m.final = nil }()
	return m.AddClippedSums()
}

// reportFinalSums sets the order of sums, and inserts steps that report them behind those that complete them.
func (m *Executable) reportFinalSums() {
	last := make([]int, len(m.program.Parameters)) // [parameter] the step that completes its sum
	for at, i := range m.program.Back {
		if b := m.program.Buffers[i.Out]; b.Role == plan.RoleClippedSum {
			last[b.Index] = at
		}
	}
	for v, p := range m.program.Parameters {
		if p.ClippedSum >= 0 {
			m.sumOrder = append(m.sumOrder, v)
		}
	}
	slices.SortStableFunc(m.sumOrder, func(a, b int) int { return last[a] - last[b] })
	for n := len(m.sumOrder); n > 0; n-- {
		m.back = slices.Insert(m.back, last[m.sumOrder[n-1]]+1, func() {
			if m.final != nil {
				m.final(n)
			}
		})
	}
}

// runSteps runs steps in order. It turns a panic, which is a bug or the failure of a
// foreign operation, into an error, so that the run ends with its ledger closed.
func runSteps(steps []func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cpu: an operation failed: %v", redactPanic(p))
		}
	}()
	for _, step := range steps {
		step()
	}
	return nil
}

// redactPanic must be called while recovering from p. It replaces Go's own runtime
// errors, whose text may quote a number that comes from a record, by the position of
// the panic. It returns other values unchanged.
func redactPanic(p any) any {
	if _, ok := p.(runtime.Error); !ok {
		return p
	}
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	panicked := false
	for {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		if panicked && !inRuntime || !more {
			return fmt.Sprintf("a bug at %s:%d", filepath.Base(f.File), f.Line)
		}
		panicked = panicked || inRuntime
	}
}

// State returns the weights, averages and optimiser slots; the slices alias the
// memory of the program.
func (m *Executable) State() plan.State { return m.state }

// SyncState does nothing: State is always up to date.
func (m *Executable) SyncState() error { return nil }

// LoadState does nothing: steps read the memory that State returns.
func (m *Executable) LoadState() error { return nil }

// WorkspaceBytes returns the bytes of the threads' scratch memory.
func (m *Executable) WorkspaceBytes() int {
	if m.contributions == nil {
		return m.pool.scratchBytes()
	}
	return m.pool.scratchBytes() + m.contributions.scratch.bytes()
}

// Close ends the threads.
func (m *Executable) Close() error {
	m.pool.close()
	return nil
}
