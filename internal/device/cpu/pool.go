package cpu

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/dptrain/dptrain/internal/device/lattice"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// pool shares tasks among threads without allocating. The result of a task may depend
// on its number but not on the thread that runs it, so that results have the same bits
// for any number of threads.
//
// A round is one call of run. The caller does not wait for helpers that the system has
// not scheduled yet: it runs their tasks itself.
type pool struct {
	workers   []*worker
	floats    int // float32 scratch memory to allocate for each worker
	doubles   int // the same for float64
	sums      int // elements of the memory of each worker for a sum of integers
	grams     int // the same for Gram matrices of integers
	int16s    int // the same for operands of 16 bits
	shared    int // bytes of scratch memory that the workers share
	helpers   []*helper
	spinLimit time.Duration // how long a waiting thread spins before it sleeps

	round    int64
	open     atomic.Int64 // round·roundUnit plus the helpers that have joined; 0 between rounds
	finished atomic.Int64 // helpers of this round that are done
	asleep   atomic.Bool  // whether the caller of run sleeps
	wake     chan struct{}

	queues  []queue // one per thread of the round
	threads int     // of the round
	tasks   int
	task    func(i int, w *worker)
	failure atomic.Pointer[any]
}

// roundUnit is larger than the number of helpers.
const roundUnit = 1 << 16

// helper is a thread that waits for rounds. It spins first, because the next round
// mostly follows at once and waking a thread takes longer than a short round; then it
// sleeps.
type helper struct {
	round  atomic.Int64 // the last round that the helper was called to
	asleep atomic.Bool
	wake   chan struct{}
	_      [64]byte // keeps the fields that other threads read on a cache line of their own
}

// queue is the part of a round's tasks that one thread takes first. It is the same
// part in every round of a step, so that the thread finds in its cache the data of the
// previous round. Other threads take the tasks that remain.
type queue struct {
	taken atomic.Int64
	_     [56]byte
}

// spinLimit is longer than the work that one thread does alone between rounds, such as
// clipping.
const spinLimit = 100 * time.Microsecond

// spinsPerClock is how often a thread tests its condition before it reads the clock.
const spinsPerClock = 1 << 12

// spinWait bounds how long a thread spins.
type spinWait struct {
	times int
	since time.Time // the first reading of the clock
}

// again reports whether the thread should test its condition once more.
func (s *spinWait) again(limit time.Duration) bool {
	if s.times++; limit == 0 || s.times%spinsPerClock > 0 {
		return limit > 0
	}
	if s.since.IsZero() {
		s.since = time.Now()
	}
	return time.Since(s.since) < limit
}

// newPool starts threads; 0 means GOMAXPROCS.
func newPool(threads int) *pool {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	p := &pool{wake: make(chan struct{}, 1), queues: make([]queue, threads)}
	if threads <= runtime.GOMAXPROCS(0) {
		p.spinLimit = spinLimit
	}
	for i := range threads {
		p.workers = append(p.workers, &worker{gemm: simd.NewWorkspace(), lattice: lattice.NewWorkspace()})
		if i == 0 {
			continue
		}
		h := &helper{wake: make(chan struct{}, 1)}
		p.helpers = append(p.helpers, h)
		go func() {
			for round := h.wait(0, p.spinLimit); round > 0; round = h.wait(round, p.spinLimit) {
				if p.join(round) {
					p.work(i)
					p.leave()
				}
			}
		}()
	}
	return p
}

// wait returns the next round after last that calls the helper, or 0 when the pool is
// closed.
func (h *helper) wait(last int64, limit time.Duration) int64 {
	for {
		for spin := (spinWait{}); spin.again(limit); {
			if round := h.round.Load(); round > last {
				return round
			}
		}
		h.asleep.Swap(true) // not Store: qemu reorders arm64 loads before it, and the helper would miss a call
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

// join adds a helper to the round and reports whether the round is still open. The
// round does not end before the helper calls leave.
func (p *pool) join(round int64) bool {
	for {
		open := p.open.Load()
		if open/roundUnit != round {
			return false
		}
		if p.open.CompareAndSwap(open, open+1) {
			return true
		}
	}
}

// leave removes a helper from the round.
func (p *pool) leave() {
	p.finished.Add(1)
	if p.asleep.CompareAndSwap(true, false) {
		p.wake <- struct{}{}
	}
}

// endRound closes the round to other helpers and waits for those that have joined.
func (p *pool) endRound() {
	joined := p.open.Swap(0) % roundUnit
	for spin := (spinWait{}); p.finished.Load() < joined; {
		if spin.again(p.spinLimit) {
			continue
		}
		p.asleep.Swap(true) // not Store, as in wait
		if p.finished.Load() < joined || !p.asleep.CompareAndSwap(true, false) {
			<-p.wake
		}
	}
}

// run runs task(0) … task(n-1) and returns when all are done. The caller makes task
// once and passes it every time: a closure per call would allocate in the step loop.
func (p *pool) run(n int, task func(i int, w *worker)) {
	p.tasks, p.task = n, task
	helpers := max(0, min(len(p.helpers), n-1))
	p.threads = helpers + 1
	for i := range p.queues[:p.threads] {
		p.queues[i].taken.Store(0)
	}
	if helpers > 0 {
		p.round++
		p.finished.Store(0)
		p.open.Store(p.round * roundUnit)
		for _, h := range p.helpers[:helpers] {
			h.call(p.round)
		}
	}
	p.work(0)
	if helpers > 0 {
		p.endRound()
	}
	if f := p.failure.Swap(nil); f != nil {
		panic(*f)
	}
}

// work takes tasks until none is left. It keeps a panic for run, which panics in the
// caller's goroutine: a panic in a helper's goroutine would end the process before the
// ledger is closed.
func (p *pool) work(thread int) {
	defer func() {
		if f := recover(); f != nil {
			p.fail(redactPanic(f))
		}
	}()
	w := p.workers[thread]
	for k := range p.threads {
		q := (thread + k) % p.threads
		first, end := p.tasks*q/p.threads, p.tasks*(q+1)/p.threads
		taken := &p.queues[q].taken
		for taken.Load() < int64(end-first) { // an exhausted queue is read, not written
			if i := first + int(taken.Add(1)) - 1; i < end {
				p.task(i, w)
			}
		}
	}
}

func (p *pool) fail(f any) { p.failure.Store(&f) }

// close ends the helpers. No round may follow.
func (p *pool) close() {
	for _, h := range p.helpers {
		close(h.wake)
	}
	p.helpers = nil
}
