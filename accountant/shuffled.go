package accountant

import (
	"fmt"
	"slices"
)

func shuffleNote(a Adjacency) string {
	return fmt.Sprintf("Shuffled batches are not amplified by sampling: each pass counts as one unsampled release under %s adjacency.", a)
}

// shufflePass gathers the lots of a pass over disjoint batches: a record is in
// one of them, and which one is not accounted, so it is taken to be in the one
// that tells most.
type shufflePass struct {
	sampling Sampling
	left     int // lots still to come in this pass
	worst    event
}

func (p *shufflePass) end(add func(event, int)) {
	if p.left > 0 {
		add(p.worst, 1)
	}
	*p = shufflePass{}
}

func (p *shufflePass) lots(e event, run Spent, add func(event, int)) {
	if run.Lot.Sampling != p.sampling {
		p.end(add)
		p.sampling = run.Lot.Sampling
	}
	inPass := (p.sampling.Records + p.sampling.Lot - 1) / p.sampling.Lot
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

// asPoisson is h with every shuffled lot drawn as a Poisson sample instead.
func asPoisson(h History) History {
	h.Spent = slices.Clone(h.Spent)
	for i, run := range h.Spent {
		if s := run.Lot.Sampling; s.Policy == Shuffle {
			h.Spent[i].Lot.Sampling = Sampling{Policy: Poisson, Rate: float64(s.Lot) / float64(s.Records), Records: s.Records}
		}
	}
	return h
}
