package accounting

import (
	"fmt"

	"github.com/dptrain/dptrain/accountant/adversary"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/learn/operation"
)

type discardRequest struct {
	Instances int     `json:"instances"`
	Epsilon   float64 `json:"epsilon"` // of a contribution, with Laplace noise
	Delta     float64 `json:"delta"`
	Updates   []int   `json:"updates"` // between the contribution and the look, several numbers
}

type discardAnswer struct {
	Insider float64   `json:"insider"` // a mean and no guarantee
	Updates []int     `json:"updates"`
	Gone    []float64 `json:"gone"`
	Later   []float64 `json:"later"` // ε at δ of one instance, drawn at random
}

// Discard states what adversaries learn of one contribution to draw and discard (Pihur et al. 2018).
func discard(q discardRequest, _ func(any)) (a discardAnswer, err error) {
	if q.Instances < 1 || !(q.Epsilon > 0) {
		return a, fmt.Errorf("%d instances and ε = %g: give at least 1 instance and a positive ε", q.Instances, q.Epsilon)
	}
	a.Insider = adversary.InsiderExpectedLoss(q.Instances, q.Epsilon)
	for _, u := range q.Updates {
		l := adversary.Later{Contribution: adversary.NewLaplace(q.Epsilon), Instances: q.Instances, Updates: float64(u)}
		a.Updates = append(a.Updates, u)
		a.Gone = append(a.Gone, adversary.GoneProbability(q.Instances, l.Updates))
		a.Later = append(a.Later, l.Epsilon(l.OneModelDelta, q.Delta))
	}
	return a, nil
}

func splitDiscard(q discardRequest, parts int) (all []discardRequest) {
	for from, to := range operation.Ranges(len(q.Updates), parts) {
		part := q
		part.Updates = q.Updates[from:to]
		all = append(all, part)
	}
	return all
}

func mergeDiscards(answers []discardAnswer) (all discardAnswer) {
	for _, a := range answers {
		all.Insider = a.Insider
		all.Updates = append(all.Updates, a.Updates...)
		all.Gone = append(all.Gone, a.Gone...)
		all.Later = append(all.Later, a.Later...)
	}
	return all
}
