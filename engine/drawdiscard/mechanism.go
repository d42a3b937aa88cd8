package drawdiscard

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/random"
	"github.com/dptrain/dptrain/noise"
)

// Distribution is the noise of a contribution.
type Distribution string

const (
	Laplace  Distribution = "laplace"
	Gaussian Distribution = "gaussian"
	// NoNoise is the baseline of experiments. It gives no privacy.
	NoNoise Distribution = "none"
)

// Level is what a contribution's ε is about (Pihur et al. 2018, section 6.3).
type Level string

const (
	// ModelLevel: the whole returned model satisfies (ε, δ).
	ModelLevel Level = "model"
	// FeatureLevel: each returned weight by itself satisfies (ε, δ). All m weights together
	// satisfy mε with Laplace noise. It is a guarantee only against who reads one weight.
	FeatureLevel Level = "feature"
)

// Settings are the public settings of a client's step.
type Settings struct {
	Distribution Distribution `json:"mechanism" yaml:"mechanism"`
	Level        Level        `json:"privacy" yaml:"privacy"`
	Epsilon      float64      `json:"epsilon,omitempty" yaml:"epsilon"`
	Delta        float64      `json:"delta,omitempty" yaml:"delta"` // for Gaussian noise; 0 otherwise
	Clip         float64      `json:"clip" yaml:"clip"`             // c: each coordinate of the average gradient is clipped to [-c, c]
	LearningRate float64      `json:"learning_rate" yaml:"learning_rate"`
}

// latticeSteps is K, the number of steps of the gradient lattice for the clip bound c.
const latticeSteps = 1 << 20

// Mechanism is a client's locally differentially private step for a model of a fixed number of
// weights.
//
// # Guarantee
//
// A step reads the drawn weights w, which the server knows, and the client's average gradient g.
// It clips each coordinate of g to [-c, c], rounds it to the integers f in [-K, K] of a public
// lattice, adds noise, and returns w - η·(c/K)·(f + noise). The result is a function of w, of
// public numbers and of f plus noise, so its privacy is that of f plus noise. Neighbours are
// any two data sets of the client: f changes by at most 2K in a coordinate.
//
//   - Laplace: the noise is discrete Laplace of an integer scale t, rounded up. At the model level
//     t ≥ 2Km/ε for m weights, and f plus noise is ε-DP: the l1 sensitivity is 2Km. At the
//     feature level t ≥ 2K/ε, and each coordinate of f plus noise is ε-DP by itself.
//   - Gaussian: the noise is that of the Gaussian mechanism over the real numbers, correctly
//     rounded to a public grid (noise.RoundedGaussian). At the model level the l2 sensitivity is
//     2K√m, at the feature level 2K. σ is the least that is (ε, δ)-DP (Balle and Wang 2018,
//     theorem 8), which is less than the σ of Kenthapadi et al. 2013 (theorem 1 there).
//
// The proof assumes that the noise comes from a secret key and that ChaCha20 is
// indistinguishable from random (package noise). The running time of the noise is not covered.
type Mechanism struct {
	settings Settings
	weights  int
	scale    float64 // in lattice steps: t for Laplace, σ for Gaussian
}

// NewMechanism returns the mechanism for models of the given number of weights.
func NewMechanism(s Settings, weights int) (*Mechanism, error) {
	positive := func(v float64) bool { return v > 0 && v <= math.MaxFloat32 }
	switch {
	case weights < 1:
		return nil, fmt.Errorf("drawdiscard: a model of %d weights; at least 1 is needed", weights)
	case !positive(s.Clip):
		return nil, fmt.Errorf("drawdiscard: the clip bound is %v; it must be above 0", s.Clip)
	case !positive(s.LearningRate):
		return nil, fmt.Errorf("drawdiscard: the learning rate is %v; it must be above 0", s.LearningRate)
	}
	m := &Mechanism{settings: s, weights: weights}
	if s.Distribution == NoNoise {
		return m, nil
	}
	coordinates := float64(weights)
	switch s.Level {
	case ModelLevel:
	case FeatureLevel:
		coordinates = 1
	default:
		return nil, fmt.Errorf("drawdiscard: privacy level %q is unknown; use %s or %s", s.Level, ModelLevel, FeatureLevel)
	}
	if !positive(s.Epsilon) {
		return nil, fmt.Errorf("drawdiscard: ε is %v; it must be above 0", s.Epsilon)
	}
	switch s.Distribution {
	case Laplace:
		if s.Delta != 0 {
			return nil, fmt.Errorf("drawdiscard: δ is %v, and Laplace noise has δ = 0; use gaussian, or omit δ", s.Delta)
		}
		m.scale = math.Ceil(math.Nextafter(2*latticeSteps*coordinates/s.Epsilon, math.Inf(1)))
		if m.scale > random.MaxLaplaceScale {
			return nil, fmt.Errorf("drawdiscard: ε %v for %d weights needs noise of more than 2^49 lattice steps; use a larger ε", s.Epsilon, weights)
		}
	case Gaussian:
		if !(s.Delta > 0 && s.Delta < 1) {
			return nil, fmt.Errorf("drawdiscard: δ is %v; Gaussian noise needs a δ between 0 and 1", s.Delta)
		}
		norm := math.Ceil(latticeSteps * math.Sqrt(coordinates)) // bounds the Euclidean norm of f
		m.scale = 2 * norm / largestShift(s.Epsilon, s.Delta) * (1 + 0x1p-40)
		if !(m.scale < 0x1p58) {
			return nil, fmt.Errorf("drawdiscard: ε %v and δ %v for %d weights need noise of more than 2^58 lattice steps; use a larger ε", s.Epsilon, s.Delta, weights)
		}
		if m.scale < 1 {
			return nil, fmt.Errorf("drawdiscard: ε %v allows less noise than the lattice resolves; use a smaller ε, or %s", s.Epsilon, NoNoise)
		}
	default:
		return nil, fmt.Errorf("drawdiscard: noise %q is unknown; use %s or %s", s.Distribution, Laplace, Gaussian)
	}
	return m, nil
}

// largestShift is the largest sensitivity of a unit Gaussian that is proven (ε, δ)-DP.
func largestShift(epsilon, delta float64) float64 {
	proven := func(shift float64) bool { return accountant.GaussianEpsilon(shift, delta) <= epsilon }
	low, high := 0.0, 1.0
	for proven(high) {
		low, high = high, 2*high
	}
	for range 60 {
		if middle := (low + high) / 2; proven(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// Settings returns the settings.
func (m *Mechanism) Settings() Settings { return m.settings }

// Weights is the number of weights of the models.
func (m *Mechanism) Weights() int { return m.weights }

// AtRate returns the mechanism of a step with another learning rate, which must be positive and at most
// math.MaxFloat32. Its noise follows the rate.
func (m *Mechanism) AtRate(rate float64) (*Mechanism, error) {
	if !(rate > 0 && rate <= math.MaxFloat32) {
		return nil, fmt.Errorf("drawdiscard: the learning rate is %v; it must be above 0", rate)
	}
	other := *m
	other.settings.LearningRate = rate
	return &other, nil
}

// NoiseScale is the scale of the noise on a coordinate of the gradient: b for Laplace, σ for
// Gaussian, 0 without noise.
func (m *Mechanism) NoiseScale() float64 { return m.scale * m.settings.Clip / latticeSteps }

// NoiseVariance is the variance of the noise on a weight of the returned model. The grids change
// it by a share below 10⁻⁵.
func (m *Mechanism) NoiseVariance() float64 {
	deviation := m.settings.LearningRate * m.NoiseScale()
	if m.settings.Distribution == Laplace {
		return 2 * deviation * deviation
	}
	return deviation * deviation
}

// Query is the cost of one contribution for a privacy ledger whose adjacency is replace-one: the
// sensitivity is that of a client that is added, and the accountants double it. At the feature level it
// is the cost of one weight by itself, and at the model level that of the whole returned model. Both hold for
// contributions of either level, because each weight has independent noise of one scale: a ledger of one
// level counts all contributions of a client.
func (m *Mechanism) Query(group string, level Level) ledger.Query {
	coordinates := float64(m.weights)
	if level == FeatureLevel {
		coordinates = 1
	}
	if m.settings.Distribution == Gaussian {
		norm := int64(math.Ceil(latticeSteps * math.Sqrt(coordinates)))
		return ledger.RoundedQuery(group, float64(norm), m.scale, norm)
	}
	return ledger.Query{Group: group, Mechanism: ledger.Laplace, Sensitivity: latticeSteps * coordinates, Noise: m.scale}
}

// ClipToBox clips each coordinate to [-c, c]. NaN becomes 0.
func ClipToBox(gradient []float32, c float64) {
	bound := float32(c)
	for i, v := range gradient {
		switch {
		case v > bound:
			gradient[i] = bound
		case v < -bound:
			gradient[i] = -bound
		case v != v:
			gradient[i] = 0
		}
	}
}

// Release writes the private step from the drawn weights to dst: the guarantee of Mechanism. The
// stream must be one that src never gave to another release. Dst may be the gradient.
func (m *Mechanism) Release(dst, drawn, gradient []float32, src *noise.Source, st noise.Stream) error {
	if len(dst) != m.weights || len(drawn) != m.weights || len(gradient) != m.weights {
		return fmt.Errorf("drawdiscard: a step of %d, %d and %d values for a model of %d weights", len(dst), len(drawn), len(gradient), m.weights)
	}
	sums := make([]int64, m.weights)
	for i, v := range gradient {
		sums[i] = m.latticePoint(v)
	}
	unit := m.settings.LearningRate * m.settings.Clip / latticeSteps
	switch m.settings.Distribution {
	case Laplace:
		drawnNoise := make([]int64, m.weights)
		if err := src.DiscreteLaplaces(drawnNoise, st, 0, uint64(m.scale)); err != nil {
			return err
		}
		for i, n := range drawnNoise {
			sums[i] += n
		}
	case Gaussian:
		rounded := noise.RoundedGaussian{Sigma: m.scale}
		if err := rounded.Add(src, sums, st, 0); err != nil {
			return err
		}
		unit = math.Ldexp(unit, rounded.Grid())
	}
	for i, s := range sums {
		dst[i] = float32(float64(drawn[i]) - unit*float64(s))
	}
	return nil
}

// latticePoint is the nearest lattice point to a gradient clipped to the box, in [-K, K]. NaN
// becomes 0.
func (m *Mechanism) latticePoint(gradient float32) int64 {
	v := float64(gradient) / m.settings.Clip
	if v != v {
		return 0
	}
	return int64(math.RoundToEven(max(-1, min(1, v)) * latticeSteps))
}
