package dpevent

import "github.com/dptrain/dptrain/accountant/ledger"

// shufflePass gathers the lots of a pass over disjoint batches: a record is in
// one of them, and which one is not accounted, so it is taken to be in the one
// that tells most.
type shufflePass struct {
	sampling   ledger.Sampling
	remaining  int // lots still to come in this pass
	dominating Event
}

func (p *shufflePass) flush(add func(Event, int)) {
	if p.remaining > 0 {
		add(p.dominating, 1)
	}
	*p = shufflePass{}
}

func (p *shufflePass) add(e Event, run ledger.RepeatedLot, add func(Event, int)) {
	if run.Lot.Sampling != p.sampling {
		p.flush(add)
		p.sampling = run.Lot.Sampling
	}
	inPass := (p.sampling.Records + p.sampling.LotSize - 1) / p.sampling.LotSize
	count := run.Count
	if p.remaining > 0 {
		p.dominating = dominatingEvent(p.dominating, e)
		took := min(count, p.remaining)
		p.remaining -= took
		count -= took
		if p.remaining == 0 {
			add(p.dominating, 1)
		}
	}
	add(e, count/inPass)
	if rest := count % inPass; rest > 0 {
		p.remaining, p.dominating = inPass-rest, e
	}
}
