package cpu

import (
	"github.com/dptrain/dptrain/internal/device/lattice"
	"github.com/dptrain/dptrain/internal/device/simd"
	"github.com/dptrain/dptrain/internal/host/memory"
)

// worker is the memory that belongs to one thread of a pool. No other thread uses it.
type worker struct {
	gemm    *simd.Workspace
	scratch []float32
	wide    []float64
	groups  groups
	rows    []int32
	lattice *lattice.Workspace

	rowSquares []int64 // of rows of integers
	sum        []int32 // zeros between tasks
	grams      []int32
	int64s     []int64 // of a block of a release
	int16s     []int16
}

// floats returns n float32 numbers of the worker's scratch memory. Their values are
// undefined. Two calls return the same memory, grown if the second asks for more.
func (w *worker) floats(n int) []float32 {
	if cap(w.scratch) < n {
		w.scratch = memory.Zeros[float32](n)
	}
	return w.scratch[:n]
}

// doubles is floats for float64.
func (w *worker) doubles(n int) []float64 {
	if cap(w.wide) < n {
		w.wide = make([]float64, n)
	}
	return w.wide[:n]
}

// reserve makes every worker's scratch memory at least this large, so that no step
// allocates. The memory exists after allocateScratch.
func (p *pool) reserve(floats, doubles int) {
	p.floats, p.doubles = max(p.floats, floats), max(p.doubles, doubles)
}

// reserveRows makes every worker's list of rows at least n long.
func (p *pool) reserveRows(n int) {
	for _, w := range p.workers {
		if len(w.rows) < n {
			w.rows = make([]int32, n)
		}
	}
}

// reserveRowSquares makes the memory of every worker for squared norms of rows of integers at
// least n long.
func (p *pool) reserveRowSquares(n int) {
	for _, w := range p.workers {
		if len(w.rowSquares) < n {
			w.rowSquares = make([]int64, n)
		}
	}
}

// reserveSum makes every worker's memory for a sum of integers at least this large.
func (p *pool) reserveSum(n int) { p.sums = max(p.sums, n) }

// reserveGrams makes the memory of every worker for Gram matrices of integers at least this large.
func (p *pool) reserveGrams(n int) { p.grams = max(p.grams, n) }

// reserveInt16s makes every worker's memory for operands of 16 bits at least this large.
func (p *pool) reserveInt16s(n int) { p.int16s = max(p.int16s, n) }

// reserveGroups makes every worker's groups large enough for this many rows.
func (p *pool) reserveGroups(rows int) {
	for _, w := range p.workers {
		w.groups = w.groups.sized(rows)
	}
}

// scratchBytes returns the bytes of all workers' reserved scratch memory, and of what they share.
func (p *pool) scratchBytes() int {
	return p.shared + len(p.workers)*(4*p.floats+8*p.doubles+4*p.sums+4*p.grams+2*p.int16s)
}

// allocateScratch allocates the scratch memory that steps have reserved.
func (p *pool) allocateScratch() {
	for _, w := range p.workers {
		w.floats(p.floats)
		w.doubles(p.doubles)
		w.sum, w.grams = make([]int32, p.sums), make([]int32, p.grams)
		w.int16s = make([]int16, p.int16s)
	}
}

// grain is the work of a task in elementary operations: enough to pay for waking a
// thread.
const grain = 1 << 13

// taskSize returns how many elements of a cost make a task.
func taskSize(cost int) int { return max(1, grain/max(1, cost)) }

// splitTasks cuts n elements into tasks of at least size elements and returns the
// bounds of task i. The cut depends on n and size alone, not on the number of threads.
func splitTasks(n, size int) (tasks int, bounds func(i int) (from, to int)) {
	tasks = max(1, min(64, n/size))
	return tasks, func(i int) (int, int) { return n * i / tasks, n * (i + 1) / tasks }
}

// longestRange returns the length of the longest range that forRanges gives a task.
func longestRange(n, cost int) int {
	tasks, _ := splitTasks(n, taskSize(cost))
	return (n + tasks - 1) / tasks
}

// forRanges makes a step that runs f on consecutive ranges of 0 … n-1. cost is the
// work of one element in elementary operations. The result for an element must not
// depend on the range that contains it.
func (p *pool) forRanges(n, cost int, f func(from, to int, w *worker)) func() {
	tasks, bounds := splitTasks(n, taskSize(cost))
	if tasks == 1 {
		w := p.workers[0]
		return func() { f(0, n, w) }
	}
	task := func(i int, w *worker) {
		from, to := bounds(i)
		f(from, to, w)
	}
	return func() { p.run(tasks, task) }
}

// forShards makes a step that runs f once per thread. The result must not depend on
// the number of shards. Work below two grains is one shard.
func (p *pool) forShards(cost int, f func(shard, shards int, w *worker)) func() {
	n := len(p.workers)
	if n == 1 || cost < 2*grain {
		w := p.workers[0]
		return func() { f(0, 1, w) }
	}
	task := func(i int, w *worker) { f(i, n, w) }
	return func() { p.run(n, task) }
}

// forExamples makes a step that runs f once per thread, each time on some of n
// examples. cost is the work of one example.
func (p *pool) forExamples(n, cost int, f func(from, to int, w *worker)) func() {
	return p.forShards(n*cost, func(shard, shards int, w *worker) {
		if from, to := n*shard/shards, n*(shard+1)/shards; from < to {
			f(from, to, w)
		}
	})
}
