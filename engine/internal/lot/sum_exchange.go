package lot

import (
	"cmp"
	"runtime"
	"sync"

	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/ranks"
)

// sumExchange gives each rank the sums of all ranks in its part. The last microbatch of a lot completes the
// parameters one after the other. On several hosts a piece travels as soon as its parameters are complete:
//
//	device        … fc3 ▓▓▓▓▓│fc2 ▓▓▓▓▓│fc1 ▓▓▓▓│
//	sumExchange              ├ piece 0 ┤├ piece 1 ┤├ piece 2 ┤
//
// All ranks exchange all pieces of a lot, in one order, or none. A rank that fails sends what its memory has, and the
// ranks agree on its error before they use a sum.
type sumExchange struct {
	*parts
	ranks  ranks.Exchanger
	own    int  // this rank
	early  bool // pieces travel while the device computes
	device plan.PartReleaser
	sums   [][]int64 // [parameter]: of all ranks, in the part of this rank

	records int  // no rank has more in the lot
	begun   bool // the exchange of the lot
	done    chan error

	mutex    sync.Mutex
	more     sync.Cond   // final has grown
	final    int         // the sums of the first final parameters are final, in the order of the parts
	setFinal func(n int) // reportFinal; a new value would be allocated for each lot
}

func newSumExchange(p *parts, c ranks.Communicator, device plan.PartReleaser, sums [][]int64) *sumExchange {
	x := &sumExchange{parts: p, ranks: c.(ranks.Exchanger), own: c.Rank(), device: device, sums: sums, done: make(chan error, 1)}
	x.early = x.ranks.OnSeveralHosts()
	x.more.L = &x.mutex
	x.setFinal = x.reportFinal
	return x
}

// begin begins the exchange of a lot, in which no rank has more than records records. Until finish returns, nothing
// else uses the communicator.
func (x *sumExchange) begin(records int) {
	x.records, x.final, x.begun = records, 0, true
	if x.early {
		go x.run()
	}
}

// reportFinal states that the sums of the first n parameters are final.
func (x *sumExchange) reportFinal(n int) {
	x.mutex.Lock()
	x.final = max(x.final, n)
	x.mutex.Unlock()
	x.more.Signal()
	runtime.Gosched() // where all processors compute, run gets its turn
}

// awaitFinal returns when the sums of the first n parameters are final.
func (x *sumExchange) awaitFinal(n int) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	for x.final < n {
		x.more.Wait()
	}
}

// finish returns when the ranks have exchanged all sums of a lot whose exchange has begun. All sums of this rank are
// final.
func (x *sumExchange) finish() error {
	if !x.begun {
		return nil
	}
	x.begun = false
	x.reportFinal(len(x.order))
	if !x.early {
		x.run()
	}
	return <-x.done
}

// run exchanges piece after piece.
func (x *sumExchange) run() {
	width := plan.SumBytes(x.records)
	var failed error
	for piece := range x.pieces {
		x.awaitFinal(x.needs[piece])
		x.prepare(piece, width)
		failed = cmp.Or(failed, x.read(piece, width))
		if err := x.ranks.Exchange(x.receive, x.send[:x.ends[len(x.ends)-1]], x.ends); err != nil {
			x.done <- err
			return
		}
		from, to := ranks.PartOf(x.ends, x.own)
		bytes := to - from
		for rank := range x.sizes {
			if rank != x.own {
				x.add(x.sums, x.receive[rank*bytes:(rank+1)*bytes], x.own, piece, width)
			}
		}
	}
	x.done <- failed
}

// read reads the sums of this rank: those of its part, and those of other parts into messages.
func (x *sumExchange) read(piece, width int) error {
	for rank := range x.sizes {
		if rank != x.own {
			from, to := ranks.PartOf(x.ends, rank)
			if err := x.pack(x.send[from:to], rank, piece, width, x.device); err != nil {
				return err
			}
		}
	}
	return x.each(x.own, piece, func(s span) error {
		return x.device.ReadSums(s.parameter, s.from, x.sums[s.parameter][s.from:s.to])
	})
}
