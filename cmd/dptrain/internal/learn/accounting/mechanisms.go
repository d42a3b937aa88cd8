package accounting

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/learn/operation"
	"github.com/dptrain/dptrain/noise"
)

type responsesRequest struct {
	Epsilon float64 `json:"epsilon"`
	People  int     `json:"people"`
	Yes     float64 `json:"yes"` // true share of the answer yes
}

type responsesAnswer struct {
	Truth     float64 `json:"truth"`    // probability of a true answer: e^ε/(1 + e^ε)
	Answered  float64 `json:"answered"` // share of the answer yes
	Estimate  float64 `json:"estimate"` // (answered − (1 − truth))/(2·truth − 1)
	Deviation float64 `json:"deviation"`
}

// Responses asks people by randomised response (Warner 1965). The random bits come from the
// generator of the engine.
func responses(q responsesRequest, _ func(any)) (a responsesAnswer, err error) {
	if !(q.Epsilon > 0) || q.People < 1 || q.People > 1_000_000 {
		return a, fmt.Errorf("ε = %g and %d people: give a positive ε and 1 to 1,000,000 people", q.Epsilon, q.People)
	}
	a.Truth = 1 / (1 + math.Exp(-q.Epsilon))
	source, err := noise.New()
	if err != nil {
		return a, err
	}
	words := make([]uint64, q.People)
	if err := source.Uint64s(words, noise.Stream{Purpose: noise.Sampling}, 0); err != nil {
		return a, err
	}
	yes := int(math.Round(q.Yes * float64(q.People)))
	count := 0
	for person, w := range words {
		truthful := float64(w>>11)/(1<<53) < a.Truth
		if truthful == (person < yes) {
			count++
		}
	}
	n := float64(q.People)
	a.Answered = float64(count) / n
	a.Estimate = (a.Answered - (1 - a.Truth)) / (2*a.Truth - 1)
	a.Deviation = math.Sqrt(a.Truth*(1-a.Truth)/n) / (2*a.Truth - 1)
	return a, nil
}

type mechanismRequest struct {
	Kind    string  `json:"kind"` // laplace, gaussian or exponential
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
}

type mechanismAnswer struct {
	Scale float64   `json:"scale"` // b of Laplace noise, σ of Gaussian noise; sensitivity 1
	X     []float64 `json:"x"`
	// P and Q are the densities, or probabilities, of the answers on two neighbouring data sets.
	P     []operation.Number `json:"p"`
	Q     []operation.Number `json:"q"`
	Names []string           `json:"names"` // of the candidates of the exponential mechanism
	// Loss is the largest |ln(P/Q)| of the answers shown.
	Loss operation.Number `json:"loss"`
}

const densityPoints = 161

// Mechanism computes the distributions of an answer on two neighbouring data sets: a count of 0 and
// of 1 with noise, or a choice among candidates with votes.
func mechanism(q mechanismRequest, _ func(any)) (a mechanismAnswer, err error) {
	if !(q.Epsilon > 0) {
		return a, fmt.Errorf("ε = %g: give a positive number", q.Epsilon)
	}
	switch q.Kind {
	case "laplace":
		a.Scale = 1 / q.Epsilon // Dwork, McSherry, Nissim and Smith 2006
		a.draw(func(x float64) float64 { return math.Exp(-math.Abs(x)/a.Scale) / (2 * a.Scale) })
	case "gaussian":
		// The least σ for one release: the analytic Gaussian mechanism of Balle and Wang 2018.
		p, err := plan{Sampling: "none", Steps: 1}.accountant()
		if err != nil {
			return a, err
		}
		if a.Scale, err = accountant.CalibrateNoise(p, q.Epsilon, q.Delta, ""); err != nil {
			return a, err
		}
		a.draw(func(x float64) float64 {
			return math.Exp(-x*x/(2*a.Scale*a.Scale)) / (a.Scale * math.Sqrt(2*math.Pi))
		})
	case "exponential":
		a.choose(q.Epsilon)
	default:
		return a, fmt.Errorf("there is no mechanism %q", q.Kind)
	}
	for i := range a.P {
		a.Loss = max(a.Loss, operation.Number(math.Abs(math.Log(float64(a.P[i])/float64(a.Q[i])))))
	}
	return a, nil
}

func (a *mechanismAnswer) draw(density func(x float64) float64) {
	width := 4*a.Scale + 1
	for i := range densityPoints {
		x := 0.5 + width*(2*float64(i)/(densityPoints-1)-1)
		a.X = append(a.X, x)
		a.P, a.Q = append(a.P, operation.Number(density(x))), append(a.Q, operation.Number(density(x-1)))
	}
}

// choose is the exponential mechanism of McSherry and Talwar 2007: a candidate with u votes is
// chosen with a probability proportional to e^(ε·u/2). The neighbour has one vote that moves.
func (a *mechanismAnswer) choose(epsilon float64) {
	a.Names = []string{"tea", "coffee", "water", "juice"}
	a.P = votes(epsilon, 7, 6, 3, 1)
	a.Q = votes(epsilon, 6, 7, 3, 1)
}

func votes(epsilon float64, counts ...float64) (p []operation.Number) {
	total := 0.0
	for _, u := range counts {
		total += math.Exp(epsilon * u / 2)
	}
	for _, u := range counts {
		p = append(p, operation.Number(math.Exp(epsilon*u/2)/total))
	}
	return p
}
