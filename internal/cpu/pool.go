package cpu

import (
	"runtime"
	"sync/atomic"
	"time"

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
		w.scratch = zeros(n)
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
//
// A round is one call of each. Threads that are late for it, because the machine
// has other things to do, are not waited for.
type pool struct {
	workers  []*worker
	floats   int // of scratch memory that a worker needs
	doubles  int
	helpers  []*helper
	patience time.Duration // for which one who waits looks before it sleeps

	round    int64
	open     atomic.Int64 // the round times joining, plus how many helpers have joined; 0 between rounds
	finished atomic.Int64 // helpers of this round that are done
	asleep   atomic.Bool  // the caller of each
	wake     chan struct{}

	queues  []queue // of each thread of the round
	sharing int     // threads of the round
	tasks   int
	task    func(i int, w *worker)
	failure atomic.Pointer[any]
}

// joining is more than the number of helpers.
const joining = 1 << 16

// helper is a thread that waits for rounds. It looks for a while, since the next
// mostly comes at once and waking a thread takes longer than many a round; then it
// sleeps.
type helper struct {
	round  atomic.Int64 // that it was last called to
	asleep atomic.Bool
	wake   chan struct{}
	_      [64]byte // what others look at stays out of this line
}

// queue is the tasks that a thread begins with: always the same part, so that it
// finds in its cache what it left there a round before. Others take what is left.
type queue struct {
	taken atomic.Int64
	_     [56]byte
}

// patience is longer than what one thread does alone between rounds, as clipping does.
const patience = 100 * time.Microsecond

// looks is how often one looks before it looks at the clock, too.
const looks = 1 << 12

// looking is somebody who waits, and looks for what he waits for.
type looking struct {
	times int
	since time.Time // about when he began, if that is long ago
}

// on tells whether to look once more.
func (l *looking) on(patience time.Duration) bool {
	if l.times++; patience == 0 || l.times%looks > 0 {
		return patience > 0
	}
	if l.since.IsZero() {
		l.since = time.Now()
	}
	return time.Since(l.since) < patience
}

// newPool starts threads; 0 means one a processor.
func newPool(threads int) *pool {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	p := &pool{wake: make(chan struct{}, 1), queues: make([]queue, threads)}
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
			for round := h.wait(0, p.patience); round > 0; round = h.wait(round, p.patience) {
				if p.join(round) {
					p.work(i)
					p.leave()
				}
			}
		}()
	}
	return p
}

// room is how many bytes of scratch memory were reserved, for all workers.
func (p *pool) room() int { return len(p.workers) * (4*p.floats + 8*p.doubles) }

// furnish gives every worker the scratch memory that was reserved.
func (p *pool) furnish() {
	for _, w := range p.workers {
		w.floats(p.floats)
		w.doubles(p.doubles)
	}
}

// wait returns the round after one that the helper is called to; 0 says that the
// pool is closed.
func (h *helper) wait(last int64, patience time.Duration) int64 {
	for {
		for look := (looking{}); look.on(patience); {
			if round := h.round.Load(); round > last {
				return round
			}
		}
		h.asleep.Swap(true) // no Store: qemu reads past one of arm64's, and would miss a call
		if round := h.round.Load(); round > last && h.asleep.CompareAndSwap(true, false) {
			return round
		}
		if _, open := <-h.wake; !open {
			return 0
		}
	}
}

// call calls the helper to a round.
func (h *helper) call(round int64) {
	h.round.Store(round)
	if h.asleep.CompareAndSwap(true, false) {
		h.wake <- struct{}{}
	}
}

// join tells whether the round is still on; if so it does not end before leave.
func (p *pool) join(round int64) bool {
	for {
		open := p.open.Load()
		if open/joining != round {
			return false
		}
		if p.open.CompareAndSwap(open, open+1) {
			return true
		}
	}
}

func (p *pool) leave() {
	p.finished.Add(1)
	if p.asleep.CompareAndSwap(true, false) {
		p.wake <- struct{}{}
	}
}

// end ends the round: nobody joins any more, and those who have are waited for.
func (p *pool) end() {
	joined := p.open.Swap(0) % joining
	for look := (looking{}); p.finished.Load() < joined; {
		if look.on(p.patience) {
			continue
		}
		p.asleep.Swap(true) // as in wait
		if p.finished.Load() < joined || !p.asleep.CompareAndSwap(true, false) {
			<-p.wake
		}
	}
}

// each runs task(0) … task(n-1) and returns when all are done. The task must
// have been made before, once: a closure made for the call would be an
// allocation in the step loop.
func (p *pool) each(n int, task func(i int, w *worker)) {
	p.tasks, p.task = n, task
	helpers := max(0, min(len(p.helpers), n-1))
	p.sharing = helpers + 1
	for i := range p.queues[:p.sharing] {
		p.queues[i].taken.Store(0)
	}
	if helpers > 0 {
		p.round++
		p.finished.Store(0)
		p.open.Store(p.round * joining)
		for _, h := range p.helpers[:helpers] {
			h.call(p.round)
		}
	}
	p.work(0)
	if helpers > 0 {
		p.end()
	}
	if f := p.failure.Swap(nil); f != nil {
		panic(*f)
	}
}

// work takes tasks until none is left. A panic is kept for the caller of each:
// in a goroutine of its own it would end the process with no chance to close
// the ledger.
func (p *pool) work(thread int) {
	defer func() {
		if f := recover(); f != nil {
			p.fail(told(f))
		}
	}()
	w := p.workers[thread]
	for k := range p.sharing {
		q := (thread + k) % p.sharing
		first, end := p.tasks*q/p.sharing, p.tasks*(q+1)/p.sharing
		taken := &p.queues[q].taken
		for taken.Load() < int64(end-first) { // once it is done, nobody writes to it
			if i := first + int(taken.Add(1)) - 1; i < end {
				p.task(i, w)
			}
		}
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
