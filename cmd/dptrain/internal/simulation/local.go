package simulation

import (
	"math"

	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/internal/device/simd"
	"github.com/dptrain/dptrain/noise"
)

// localMechanism is the noisy step of a client: Laplace noise on each weight by itself, and none for
// an infinite ε.
func (t *task) localMechanism(epsilon, rate float64) (*drawdiscard.Mechanism, error) {
	s := drawdiscard.Settings{Distribution: drawdiscard.Laplace, Level: drawdiscard.FeatureLevel,
		Epsilon: epsilon, Clip: t.Clip, LearningRate: rate}
	if math.IsInf(epsilon, 1) {
		s.Distribution, s.Epsilon = drawdiscard.NoNoise, 0
	}
	return drawdiscard.NewMechanism(s, t.weights)
}

// clientSteps computes the gradients of clients, one after another, and their noise.
type clientSteps struct {
	*task
	mechanism *drawdiscard.Mechanism
	bank      *drawdiscard.NoiseBank
	model     drawdiscard.Model
	gradient  []float32
	inBox     bool // every gradient is within the clip bound
}

func (t *task) newClientSteps(epsilon, rate float64, number uint64) (*clientSteps, error) {
	m, err := t.localMechanism(epsilon, rate)
	if err != nil {
		return nil, err
	}
	bank, err := drawdiscard.NewNoiseBank(m.Settings().Distribution, t.weights, stream(t.Seed, noiseStream, number).Uint64())
	if err != nil {
		return nil, err
	}
	model, err := t.newModel()
	// The gradients of these models on features in [0, 1] are in [-1, 1].
	family := drawdiscard.Family(t.Model)
	inBox := t.Clip >= 1 && (family == drawdiscard.Logistic || family == drawdiscard.Multinomial)
	return &clientSteps{t, m, bank, model, make([]float32, t.weights), inBox}, err
}

// computeGradient computes a client's average gradient at w, clipped to the box.
func (s *clientSteps) computeGradient(w []float32, client int) error {
	if err := s.model.AverageGradient(s.gradient, w, s.clientRecords(client)); err != nil {
		return err
	}
	if !s.inBox {
		drawdiscard.ClipToBox(s.gradient, s.mechanism.Settings().Clip)
	}
	return nil
}

// drawAndDiscard trains with k instances. observe gets the average of the instances after each pass.
// The result is the mean variance of a weight among the instances at the end, and the variance that
// the noise alone keeps.
func (t *task) drawAndDiscard(k int, epsilon, rate float64, number uint64, observe observer) (spread, stationary float64, err error) {
	steps, err := t.newClientSteps(epsilon, rate, number)
	if err != nil {
		return 0, 0, err
	}
	defer closeModel(steps.model)
	variance := steps.mechanism.NoiseVariance()
	set, err := drawdiscard.NewInstances(steps.model.Initial(), k, variance, noise.NewSeeded(stream(t.Seed, serverStream, number).Uint64()))
	if err != nil {
		return 0, 0, err
	}
	server := stream(t.Seed, serverStream, number)
	next, average := &drawdiscard.Instance{Weights: make([]float32, t.weights)}, make([]float32, t.weights)
	for pass := range t.Passes {
		for _, client := range clientOrder(t.Clients, pass, t.Seed) {
			drawn := set.At(server.IntN(k)).Weights
			if err := steps.computeGradient(drawn, client); err != nil {
				return 0, 0, err
			}
			steps.mechanism.Simulate(next.Weights, drawn, steps.gradient, steps.bank)
			next = set.Swap(server.IntN(k), next)
		}
		set.Average(average)
		if err := observe(pass, average); err != nil {
			return 0, 0, err
		}
	}
	return set.Spread(), drawdiscard.StationaryVariance(k, variance), nil
}

// serverBatch trains one model by steps on the average noisy gradient of batch clients. Clients that
// are left over at the end of a pass count towards the next batch.
func (t *task) serverBatch(batch int, epsilon, rate float64, number uint64, observe observer) error {
	steps, err := t.newClientSteps(epsilon, rate, number)
	if err != nil {
		return err
	}
	defer closeModel(steps.model)
	w, next := steps.model.Initial(), steps.model.Initial()
	share, waiting := float32(rate/float64(batch)), 0
	for pass := range t.Passes {
		for _, client := range clientOrder(t.Clients, pass, t.Seed) {
			if err := steps.computeGradient(w, client); err != nil {
				return err
			}
			simd.Axpy(next, steps.gradient, -share)
			steps.bank.AddTo(next, share*float32(steps.mechanism.NoiseScale()))
			if waiting++; waiting == batch {
				copy(w, next)
				waiting = 0
			}
		}
		if err := observe(pass, w); err != nil {
			return err
		}
	}
	return nil
}
