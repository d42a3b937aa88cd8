package accountant

import "github.com/dptrain/dptrain/accountant/ledger"

// shufflePass gathers the lots of a pass over disjoint batches: a record is in
// one of them, and which one is not accounted, so it is taken to be in the one
// that tells most.
type shufflePass struct {
	sampling ledger.Sampling
	left     int // lots still to come in this pass
	worst    event
}

func (p *shufflePass) end(add func(event, int)) {
	if p.left > 0 {
		add(p.worst, 1)
	}
	*p = shufflePass{}
}

func (p *shufflePass) lots(e event, run ledger.RepeatedLot, add func(event, int)) {
	if run.Lot.Sampling != p.sampling {
		p.end(add)
		p.sampling = run.Lot.Sampling
	}
	inPass := (p.sampling.Records + p.sampling.LotSize - 1) / p.sampling.LotSize
	count := run.Count
	if p.left > 0 {
		p.worst = worse(p.worst, e)
		took := min(count, p.left)
		p.left -= took
		count -= took
		if p.left == 0 {
			add(p.worst, 1)
		}
	}
	add(e, count/inPass)
	if rest := count % inPass; rest > 0 {
		p.left, p.worst = inPass-rest, e
	}
}
