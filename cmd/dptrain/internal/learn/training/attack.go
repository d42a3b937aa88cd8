package training

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/learn/operation"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/noise"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

type attackRequest struct {
	Mistake string `json:"mistake"` // normaliser, rate, seed or float
	Mended  bool   `json:"mended"`  // the same attack on the correct mechanism
	Weights int    `json:"weights"` // of float: numbers that are released
	Trials  int    `json:"trials"`  // half with the record, half without
}

type attackAnswer struct {
	Trials  int     `json:"trials"`
	Right   int     `json:"right"`
	Bound   float64 `json:"bound"`   // the largest probability of a right guess that the stated guarantee allows
	Epsilon float64 `json:"epsilon"` // stated
	Delta   float64 `json:"delta"`
}

const attackDelta = 1e-5

var errTrials = errors.New("give 2 to 10,000 trials")

// attack plays the game of membership inference: a coin decides whether a record is in the data,
// the attacker sees what is released and guesses.
func attack(q attackRequest, progress func(any)) (a attackAnswer, err error) {
	if q.Trials < 2 || q.Trials > 10_000 {
		return a, errTrials
	}
	play, stated, err := q.game()
	if err != nil {
		return a, err
	}
	a.Trials, a.Delta = q.Trials, attackDelta
	for i := range q.Trials {
		present := i%2 == 0
		guess, err := play(present)
		if err != nil {
			return a, err
		}
		if guess == present {
			a.Right++
		}
		if i%20 == 19 {
			progress(float64(i+1) / float64(q.Trials))
		}
	}
	h := stated.History()
	g, err := accountant.Epsilon(h, attackDelta, "")
	if err != nil {
		return a, err
	}
	a.Epsilon = g.Epsilon
	t, err := accountant.Compose(h).TradeOff()
	for i := range 1000 {
		f := float64(i) / 1000
		a.Bound = max(a.Bound, (1+t.TruePositiveRate(f)-f)/2)
	}
	return a, err
}

func splitAttack(q attackRequest, parts int) (all []attackRequest) {
	for from, to := range operation.Ranges(q.Trials/2, parts) {
		part := q
		part.Trials = 2 * (to - from)
		all = append(all, part)
	}
	return all
}

func mergeAttacks(answers []attackAnswer) attackAnswer {
	all := answers[0]
	for _, a := range answers[1:] {
		all.Trials += a.Trials
		all.Right += a.Right
	}
	return all
}

// game returns one round of the game, and the plan that the victim states.
func (q attackRequest) game() (play func(present bool) (bool, error), stated accountant.Plan, err error) {
	switch q.Mistake {
	case "normaliser":
		return q.normaliser()
	case "rate":
		return q.rate()
	case "seed":
		return q.seed()
	case "float":
		return q.float()
	}
	return nil, stated, fmt.Errorf("there is no mistake %q", q.Mistake)
}

// normaliser: all records take part in every lot, and the mean is divided by the number of records
// that are really there. All others have the value +1, the record has −1. It moves the mean by
// nearly 2/n, and the noise is for a sensitivity of 1/n.
func (q attackRequest) normaliser() (func(bool) (bool, error), accountant.Plan, error) {
	const lots, z, others = 20, 4.0, 20.0
	source, err := noise.New()
	lot := uint64(0)
	play := func(present bool) (bool, error) {
		sum, count := others, others
		if present {
			sum, count = others-1, others+1
		}
		if q.Mended {
			count = others // a public constant
		}
		draws := make([]float64, lots)
		if err := source.Normals64(draws, noise.Stream{Purpose: noise.Release, Lot: lot}, 0); err != nil {
			return false, err
		}
		lot++
		total := 0.0
		for _, n := range draws {
			total += sum/count + n*z/others
		}
		without, with := 1.0, (others-1)/(others+1)
		if q.Mended {
			with = (others - 1) / others
		}
		return total/lots < (without+with)/2, nil
	}
	return play, accountant.Plan{Sampling: ledger.Sampling{Policy: ledger.FullBatch}, Steps: lots, Noise: z}, err
}

// rate: the victim states Poisson lots with q = 1/20, and takes the records in a fixed order: a record
// is in exactly one lot of 20, and the attacker knows which.
func (q attackRequest) rate() (func(bool) (bool, error), accountant.Plan, error) {
	const lots, z = 20, 0.8
	source, err := noise.New()
	lot := uint64(0)
	play := func(present bool) (bool, error) {
		draws, words := make([]float64, lots), make([]uint64, lots)
		if err := source.Normals64(draws, noise.Stream{Purpose: noise.Release, Lot: lot}, 0); err != nil {
			return false, err
		}
		if err := source.Uint64s(words, noise.Stream{Purpose: noise.Sampling, Lot: lot}, 0); err != nil {
			return false, err
		}
		lot++
		likelihood := 0.0 // the logarithm of its ratio
		for i, n := range draws {
			taken := i == 7
			if q.Mended {
				taken = words[i] < math.MaxUint64/lots
			}
			released := n * z
			if present && taken {
				released++
			}
			ratio := math.Exp((2*released - 1) / (2 * z * z)) // of densities with and without the record
			switch {
			case q.Mended:
				likelihood += math.Log(1 - 1.0/lots + ratio/lots)
			case i == 7:
				likelihood += math.Log(ratio)
			}
		}
		return likelihood > 0, nil
	}
	return play, accountant.Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 1.0 / lots}, Steps: lots, Noise: z}, err
}

// seed: the engine runs with a seed that the attacker knows. The attacker runs it without the record
// and subtracts.
func (q attackRequest) seed() (func(bool) (bool, error), accountant.Plan, error) {
	const z = 10.0
	seed := uint64(42)
	release := func(present bool, seed *uint64) (float64, error) {
		s, err := engine.NewVectorSum(engine.VectorSumConfig{Vectors: []engine.Vector{{Name: "sum", Size: 1}}, Records: 2,
			Sampling: engine.Sampling{Rate: 1}, Mechanism: engine.Mechanism{NoiseMultiplier: z}, Lots: 1,
			Budget: engine.Budget{Delta: attackDelta}, LedgerWriter: &bytes.Buffer{}, Seed: seed})
		if err != nil {
			return 0, err
		}
		defer s.Close()
		if _, err := s.StartLot(); err != nil {
			return 0, err
		}
		if present {
			if err := s.Add(0, 1, []float64{1}); err != nil {
				return 0, err
			}
		}
		mean, err := s.Release()
		if err != nil {
			return 0, err
		}
		return 2 * mean[0][0], nil
	}
	play := func(present bool) (bool, error) {
		victims := &seed
		if q.Mended {
			victims = nil
		}
		seen, err := release(present, victims)
		if err != nil {
			return false, err
		}
		without, err := release(false, &seed)
		return seen-without > 0.5, err
	}
	return play, accountant.Plan{Sampling: ledger.Sampling{Policy: ledger.FullBatch}, Steps: 1, Noise: z}, nil
}

// The engine's floating-point noise is σ times a float32 number. A sum with a record reaches float32
// numbers that such noise alone does not reach (Mironov 2012).
const (
	floatNoise   = 683 // 4/3 of a power of two leaves the most numbers unreached: one of 8
	floatRecords = 4
)

func (q attackRequest) float() (func(bool) (bool, error), accountant.Plan, error) {
	arithmetic := engine.FloatArithmetic
	if q.Mended {
		arithmetic = engine.ExactArithmetic
	}
	if q.Weights < 1 || q.Weights > 256 {
		return nil, accountant.Plan{}, errors.New("give 1 to 256 numbers")
	}
	play := func(present bool) (bool, error) {
		released, err := releaseWeights(present, q.Weights, arithmetic)
		return slices.ContainsFunc(released, func(w float32) bool { return !reachable(w) }), err
	}
	return play, accountant.Plan{Sampling: ledger.Sampling{Policy: ledger.FullBatch}, Steps: 1, Noise: floatNoise}, nil
}

// releaseWeights trains a network of some weights, from 0, for one lot. All records but the attacked
// one contribute exactly 0.
func releaseWeights(present bool, size int, arithmetic engine.Arithmetic) ([]float32, error) {
	y := make([]float32, floatRecords*size)
	if present {
		for i := range size {
			y[i] = 0.3 + float32(i)/1000
		}
	}
	set, err := data.NewTable([]data.Column{{Name: "x", Shape: []int{size}}, {Name: "y", Kind: data.Target, Shape: []int{size}}},
		[][]float32{make([]float32, floatRecords*size), y}, nil)
	if err != nil {
		return nil, err
	}
	r, err := engine.New(engine.Config{Network: shift(size), Train: set, Sampling: engine.Sampling{Rate: 1}, Steps: 1,
		Mechanism:    engine.Mechanism{Clipping: clip.Flat(clip.Constant(1), nil), NoiseMultiplier: floatNoise, Arithmetic: arithmetic},
		Optimization: engine.Optimization{Schedule: optim.Schedule{Base: floatRecords}}, // the weight is minus the noised sum
		Budget:       engine.Budget{Delta: attackDelta}, Device: oneThread, Files: engine.Files{LedgerWriter: &bytes.Buffer{}}})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := r.Train(context.Background(), nil); err != nil {
		return nil, err
	}
	p, err := r.Parameters()
	if err != nil {
		return nil, err
	}
	return p[0].Values, nil
}

// shift is y = x + v.
func shift(size int) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		x, y := n.Input("x", size), n.Input("y", size)
		v := n.Parameter("v", layer.Constant(0), 1, size)
		p := n.Try(func() (*G.Node, error) { return G.BroadcastAdd(x, v, nil, []byte{0}) })
		n.SetLoss(layer.SquaredError(n, p, y), p)
		return n.Network()
	}
}

// reachable reports whether σ times a float32 number is −w.
func reachable(w float32) bool {
	normal := float32(-float64(w) / floatNoise)
	candidate := math.Nextafter32(math.Nextafter32(normal, -100), -100)
	for range 5 {
		if -float32(floatNoise*float64(candidate)) == w {
			return true
		}
		candidate = math.Nextafter32(candidate, 100)
	}
	return false
}
