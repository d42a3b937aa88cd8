package training

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/perexample"
)

type membersRequest struct {
	Records int     `json:"records"`
	Passes  int     `json:"passes"`
	Epsilon float64 `json:"epsilon"` // 0: without privacy
	Delta   float64 `json:"delta"`
}

type membersAnswer struct {
	Members  []float64 `json:"members"` // losses of the pictures in training
	Others   []float64 `json:"others"`  // losses of as many pictures that were not
	False    []float64 `json:"false"`   // false-positive rates of the attack that answers "in training" below a loss
	True     []float64 `json:"true"`
	Area     float64   `json:"area"` // under this curve: the probability that a member has the smaller loss
	Bound    []float64 `json:"bound"`
	Epsilon  float64   `json:"epsilon"` // 0 without privacy
	Noise    float64   `json:"noise"`
	Steps    int       `json:"steps"`
	Accuracy float64   `json:"accuracy"` // on other pictures
	// Outlier is a picture in training whose label is wrong: its loss with a model that was trained with
	// it, and without it.
	Picture []float32 `json:"picture"`
	Digit   int       `json:"digit"`
	Label   int       `json:"label"`
	With    float64   `json:"with"`
	Without float64   `json:"without"`
}

const (
	memberNetwork = "mlp:64,act=tanh"
	memberLot     = 50
)

var errMembers = errors.New("give 60 to 2000 pictures and 1 to 200 passes")

// members trains a network and asks it for the losses of pictures (membership inference by the
// loss: Yeom et al. 2018). One picture, the last, has a wrong label.
func members(q membersRequest, progress func(any)) (a membersAnswer, err error) {
	if q.Records < 60 || q.Records > 2000 || q.Passes < 1 || q.Passes > 200 {
		return a, errMembers
	}
	digits := data.Digits()
	set, err := mislabelled(digits.Train, q.Records, &a)
	if err != nil {
		return a, err
	}
	build, err := digitNetwork(memberNetwork, set)
	if err != nil {
		return a, err
	}
	weights, bound, err := q.train(build, set, &a)
	if err != nil {
		return a, err
	}
	progress(0.5)
	others, err := subset(digits.Train, q.Records, 2*q.Records)
	if err != nil {
		return a, err
	}
	if a.Members, _, err = losses(build, weights, set); err != nil {
		return a, err
	}
	if a.Others, a.Accuracy, err = losses(build, weights, others); err != nil {
		return a, err
	}
	a.attack(bound)
	rest, err := first(set, q.Records-1)
	if err != nil {
		return a, err
	}
	without, _, err := q.train(build, rest, &membersAnswer{})
	if err != nil {
		return a, err
	}
	last, err := subset(set, q.Records-1, q.Records)
	if err != nil {
		return a, err
	}
	alone, _, err := losses(build, without, last)
	if err != nil {
		return a, err
	}
	a.With, a.Without = a.Members[q.Records-1], alone[0]
	return a, nil
}

// mislabelled returns the first pictures, the last of them with another label.
func mislabelled(s data.Set, n int, a *membersAnswer) (data.Set, error) {
	columns := slices.Clone(s.Columns())
	size := columns[0].Size()
	x, labels := make([]float32, n*size), make([]float32, n)
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	if err := s.Read([][]float32{x, labels}, rows); err != nil {
		return nil, err
	}
	a.Digit = int(labels[n-1])
	a.Label = (a.Digit + 5) % 10
	labels[n-1] = float32(a.Label)
	a.Picture = slices.Clone(x[(n-1)*size:])
	return data.NewTable(columns, [][]float32{x, labels}, nil)
}

// train returns weights and, of a private run, the bound of the error rates of every attack.
func (q membersRequest) train(build perexample.Build, set data.Set, a *membersAnswer) ([][]float32, *accountant.TradeOff, error) {
	lots := q.Passes * q.Records / memberLot
	a.Steps = lots
	if q.Epsilon == 0 {
		w, err := fit(build, set, memberLot, lots)
		return w, nil, err
	}
	var text bytes.Buffer
	c := engine.Config{Network: build, Train: set, Sampling: engine.Sampling{Lot: memberLot}, Steps: lots,
		Mechanism: engine.Mechanism{Clipping: clip.Flat(clip.Constant(1), nil)}, Budget: engine.Budget{Delta: q.Delta},
		Optimization: engine.Optimization{Schedule: optim.Schedule{Base: 0.5}}, Device: oneThread, Files: engine.Files{LedgerWriter: &text}}
	var err error
	if c.Mechanism.NoiseMultiplier, err = c.CalibrateNoise(q.Epsilon); err != nil {
		return nil, nil, err
	}
	a.Noise = c.Mechanism.NoiseMultiplier
	r, err := engine.New(c)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	if err := r.Train(context.Background(), nil); err != nil {
		return nil, nil, err
	}
	if err := r.Close(); err != nil {
		return nil, nil, err
	}
	h, _, err := ledger.Parse(&text)
	if err != nil {
		return nil, nil, err
	}
	g, err := accountant.Epsilon(h, q.Delta, "")
	if err != nil {
		return nil, nil, err
	}
	a.Epsilon = g.Epsilon
	bound, err := accountant.Compose(h).TradeOff()
	if err != nil {
		return nil, nil, err
	}
	p, err := r.Parameters()
	return engine.Values(p), &bound, err
}

// losses returns the loss of each example, and the accuracy.
func losses(build perexample.Build, weights [][]float32, s data.Set) (all []float64, accuracy float64, err error) {
	e, err := engine.NewEvaluator(build, oneThread)
	if err != nil {
		return nil, 0, err
	}
	defer e.Close()
	columns := s.Columns()
	x, label := make([]float32, columns[0].Size()), make([]float32, 1)
	right := 0
	err = e.Predict(weights, s, func(example int, output []float32) error {
		if err := s.Read([][]float32{x, label}, []int{example}); err != nil {
			return err
		}
		all = append(all, crossEntropy(output, int(label[0])))
		if slices.Index(output, slices.Max(output)) == int(label[0]) {
			right++
		}
		return nil
	})
	return all, float64(right) / float64(max(1, len(all))), err
}

func crossEntropy(logits []float32, label int) float64 {
	most, sum := float64(slices.Max(logits)), 0.0
	for _, z := range logits {
		sum += math.Exp(float64(z) - most)
	}
	return most + math.Log(sum) - float64(logits[label])
}

// attack computes the error rates of the attack for every threshold.
func (a *membersAnswer) attack(bound *accountant.TradeOff) {
	in, out := slices.Clone(a.Members), slices.Clone(a.Others)
	slices.Sort(in)
	slices.Sort(out)
	const points = 100
	for i := range points + 1 {
		f := float64(i) / points
		a.False = append(a.False, f)
		below := int(f * float64(len(out)))
		caught := len(in)
		if below < len(out) {
			caught, _ = slices.BinarySearch(in, out[below])
		}
		a.True = append(a.True, float64(caught)/float64(len(in)))
		if bound != nil {
			a.Bound = append(a.Bound, bound.TruePositiveRate(f))
		}
	}
	for _, x := range in {
		smaller, _ := slices.BinarySearch(out, x)
		a.Area += float64(len(out)-smaller) / float64(len(in)*len(out))
	}
}
