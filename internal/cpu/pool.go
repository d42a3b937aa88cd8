package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/dptrain/dptrain/internal/simd"
)

// worker is what one thread of a pool owns: nothing in it is shared.
type worker struct {
	gemm    *simd.Workspace
	scratch []float32
	wide    []float64
	groups  groups
	rows    []int32
}

// floats gives the worker's scratch memory, at least n elements of it, holding
// anything. It grows the first time a size is asked for and never again.
func (w *worker) floats(n int) []float32 {
	if cap(w.scratch) < n {
		w.scratch = make([]float32, n)
	}
	return w.scratch[:n]
}

// doubles is floats in float64.
func (w *worker) doubles(n int) []float64 {
	if cap(w.wide) < n {
		w.wide = make([]float64, n)
	}
	return w.wide[:n]
}

// pool shares tasks among threads without allocating. What a task computes may
// depend on its number and not on the thread that it meets, so that results have
// the same bits for any number of threads.
type pool struct {
	workers  []*worker
	helpers  []*helper
	patience int // how often one who waits looks before it sleeps
	left     atomic.Int64
	done     sync.WaitGroup
	next     atomic.Int64
	tasks    int
	task     func(i int, w *worker)
	failure  atomic.Pointer[any]
}

// helper is a thread that waits for work. It looks for a while, since the next
// step mostly comes at once and waking a thread takes longer than many a step;
// then it sleeps.
type helper struct {
	calls  atomic.Int64 // how often it was called
	asleep atomic.Bool
	wake   chan struct{}
	_      [64]byte // what others look at stays out of this line
}

// patience is some twenty microseconds.
const patience = 1 << 15

// newPool starts threads; 0 means one a processor.
func newPool(threads int) *pool {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	p := &pool{}
	if threads <= runtime.GOMAXPROCS(0) {
		p.patience = patience
	}
	for i := range threads {
		p.workers = append(p.workers, &worker{gemm: simd.NewWorkspace()})
		if i == 0 {
			continue
		}
		h := &helper{wake: make(chan struct{}, 1)}
		p.helpers = append(p.helpers, h)
		go func() {
			for call := int64(1); h.wait(call, p.patience); call++ {
				p.work(p.workers[i])
				p.done.Done()
				p.left.Add(-1)
			}
		}()
	}
	return p
}

// wait returns when a call has come; false says that the pool is closed.
func (h *helper) wait(call int64, patience int) bool {
	for {
		for range patience {
			if h.calls.Load() >= call {
				return true
			}
		}
		h.asleep.Store(true)
		if h.calls.Load() >= call && h.asleep.CompareAndSwap(true, false) {
			return true
		}
		if _, open := <-h.wake; !open {
			return false
		}
		if h.calls.Load() >= call {
			return true
		}
	}
}

// call sets the helper to work.
func (h *helper) call() {
	h.calls.Add(1)
	if h.asleep.CompareAndSwap(true, false) {
		h.wake <- struct{}{}
	}
}

// each runs task(0) … task(n-1) and returns when all are done. The task must
// have been made before, once: a closure made for the call would be an
// allocation in the step loop.
func (p *pool) each(n int, task func(i int, w *worker)) {
	p.tasks, p.task = n, task
	p.next.Store(0)
	helpers := min(len(p.helpers), n-1)
	if helpers > 0 {
		p.left.Add(int64(helpers))
		p.done.Add(helpers)
		for _, h := range p.helpers[:helpers] {
			h.call()
		}
	}
	p.work(p.workers[0])
	if helpers > 0 {
		for i := 0; i < p.patience && p.left.Load() > 0; i++ {
		}
		p.done.Wait()
	}
	if f := p.failure.Swap(nil); f != nil {
		panic(*f)
	}
}

// work takes tasks until none is left. A panic is kept for the caller of each:
// in a goroutine of its own it would end the process with no chance to close
// the ledger.
func (p *pool) work(w *worker) {
	defer func() {
		if f := recover(); f != nil {
			p.fail(f)
		}
	}()
	for {
		i := int(p.next.Add(1)) - 1
		if i >= p.tasks {
			return
		}
		p.task(i, w)
	}
}

func (p *pool) fail(f any) { p.failure.Store(&f) }

func (p *pool) close() {
	for _, h := range p.helpers {
		close(h.wake)
	}
	p.helpers = nil
}

// share cuts n elements into tasks of at least grain and gives the bounds of one:
// a rule of n alone.
func share(n, grain int) (tasks int, bounds func(i int) (from, to int)) {
	tasks = max(1, min(64, n/grain))
	return tasks, func(i int) (int, int) { return n * i / tasks, n * (i + 1) / tasks }
}
