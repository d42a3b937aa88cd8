package dpevent

import "github.com/dptrain/dptrain/accountant/ledger"

// shufflePass collects the lots of a pass over disjoint lots. The record is in exactly one of
// them. Which one is not accounted, so the pass is one event that dominates all its lots.
type shufflePass struct {
	sampling   ledger.Sampling
	remaining  int // lots missing from this pass
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
