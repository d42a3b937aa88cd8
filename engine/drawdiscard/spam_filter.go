package drawdiscard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
)

// Verdict is the result of a spam test.
type Verdict string

const (
	Accepted  Verdict = ""
	WeightFar Verdict = "weight" // one weight is too far from the instances
	ModelFar  Verdict = "model"  // the model as a whole is too far from the instances
)

// SpamFilter tests returned models against the mean and the spread of the instances (Pihur et al.
// 2018, section 3.4.4), without an identity of the client and without knowledge of the instance
// that it drew.
//
// Let a client draw w and return w' = w + step + noise, of n weights. It is compared with the mean
// m and the sample variances S_j² of the k instances w_i as they are when it arrives. The noise on a
// weight has the public variance σ². The test allows for the variances
//
//	v_j = max(S_j², D²/n) + σ²  with  D² = max over i of ‖w_i - m‖²
//
// (the place of w among the instances, and the noise) and for the largest step that data can cause,
// d = ηc. It rejects
//
//   - by weight, where |w'_j - m_j| > d + q·√(ρ'·v_j) for some j;
//   - as a whole, where ‖w' - m‖ > d·√n + √(ρ·(D² + nσ²)).
//
// ρ and ρ' are quantiles of ‖w' - m‖²/(D² + nσ²) in simulations of updates without data, with 1, k,
// 4k and 16k returns in flight: the largest of the four. Up to [MaxAge](k) updates happen between a
// draw and its return. The mean walks meanwhile (see [MeanStepVariance]), and all weights share the
// random slots, so how far an instance is from the mean varies by more than independent weights
// would. q bounds one weight by Chernoff's inequality:
// its distance is a weighted sum of independent noise values, and the logarithm of their moment
// generating function is at most that of one value of the same variance.
//
// The test does not read how old a draw is: a return that is older may not be farther away.
//
// # False alarms
//
// The rate α is divided: 1/2 for the whole, 1/4 for the ratio ρ' in the test by weight, 1/4 over
// all weights (Bonferroni). So the expected share of rejected honest returns is at most α, as
// far as the simulation describes the server: instances in the stationary state, noise of the
// published settings, 0 to about 16k returns in flight, and the returns older than MaxAge(k)
// refused before the test. Where gradients pull the instances together, the spread is smaller and
// the test is stricter than stated. Where gradients move all instances by more than their spread
// within MaxAge(k) updates, late returns are rejected more often.
//
// # Limits
//
// A returned model that honest data and noise could have produced passes. So an attacker can
// move each weight by about σ in a return, and a slow drift in one direction passes. The test
// bounds the speed of an attack; it does not end it.
type SpamFilter struct {
	mechanism *Mechanism
	ratio     float64 // ρ
	weight    float64 // q²ρ'
	moments   atomic.Pointer[instanceMoments]
}

// instanceMoments describe the instances at one moment.
type instanceMoments struct {
	mean     []float32
	variance []float32 // max(S_j², D²/n)
	radius   float64   // D²
}

// MaxAge is the largest number of updates between a draw and its return, 16k. An older return
// comes from instances of which few descend: each update replaces one of k, so an instance
// stays for k updates on average, and e^-16 of the instances stay for MaxAge(k). A larger limit
// admits clients that are slower. It also widens the test for all returns, because the mean walks for
// longer: docs/draw-and-discard.md has the measurements behind the factor.
func MaxAge(k int) uint64 { return 16 * uint64(k) }

// The limits of the false-alarm rate. The simulation resolves no smaller one.
const (
	MinFalseAlarm = 1e-4
	MaxFalseAlarm = 0.1
)

// NewSpamFilter returns a filter with the false-alarm rate alpha for the given instances. It
// simulates up to a few million updates.
func NewSpamFilter(m *Mechanism, all *Instances, alpha float64) (*SpamFilter, error) {
	if !(alpha >= MinFalseAlarm && alpha <= MaxFalseAlarm) {
		return nil, fmt.Errorf("drawdiscard: a false-alarm rate of %v; use %v to %v", alpha, MinFalseAlarm, MaxFalseAlarm)
	}
	distribution := m.settings.Distribution
	ratios, err := simulateRatios(distribution, all.Count(), all.Weights(), int(math.Ceil(25/alpha)))
	if err != nil {
		return nil, err
	}
	quantile := func(tail float64) (largest float64) {
		for _, r := range ratios {
			largest = max(largest, r[len(r)-1-int(tail*float64(len(r)))])
		}
		return largest
	}
	q := noiseBound(distribution, alpha/4/float64(all.Weights()))
	f := &SpamFilter{mechanism: m, ratio: quantile(alpha / 2), weight: q * q * quantile(alpha/4)}
	f.Refresh(all)
	return f, nil
}

// noiseBound is an x that noise of variance 1 exceeds in absolute value with at most the given
// probability, and so does every weighted sum of independent noise values of total variance 1.
func noiseBound(d Distribution, probability float64) float64 {
	tail := math.Log(2 / probability)
	if d != Laplace {
		return math.Sqrt(2 * tail) // exp(-x²/2) for each side
	}
	// With b² = 1/2, the logarithm of the moment generating function is -ln(1 - λ²/2), which is
	// superadditive in λ². Chernoff: ln p = min over λ of -λx - ln(1 - λ²/2), at
	// λ = (√(1 + 2x²) - 1)/x.
	bound := func(x float64) float64 {
		lambda := (math.Sqrt(1+2*x*x) - 1) / x
		return lambda*x + math.Log1p(-lambda*lambda/2)
	}
	low, high := 1e-3, 2.0
	for bound(high) < tail {
		high *= 2
	}
	for range 60 {
		if middle := (low + high) / 2; bound(middle) < tail {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// simulatedWeights is the number of weights in the simulation. More weights vary less about the
// ratio that the shared slots determine.
const simulatedWeights = 64

// simulateRatios returns sorted samples of ‖w' - m‖²/(D² + nσ²) for updates without data, with 1, k,
// 4k and 16k returns in flight on average.
func simulateRatios(d Distribution, k, weights, samples int) (ratios [4][]float64, err error) {
	width := min(weights, simulatedWeights)
	variance := 1.0
	switch d {
	case Laplace:
		variance = 2
	case NoNoise:
		d = Gaussian
	}
	bank, err := NewNoiseBank(d, width, 1)
	if err != nil {
		return ratios, err
	}
	for part, inFlight := range [...]float64{1, float64(k), 4 * float64(k), 16 * float64(k)} {
		r := rand.New(rand.NewPCG(uint64(part), uint64(k)))
		p := newNoiseProcess(bank, k, width, inFlight, variance, r)
		for range min(k*k, 200_000) {
			p.replace(p.next())
		}
		for range samples {
			f := p.next()
			ratios[part] = append(ratios[part], p.ratio(f))
			p.replace(f)
			for range k / 40 { // the spread changes slowly
				p.replace(p.next())
			}
		}
		slices.Sort(ratios[part])
	}
	return ratios, nil
}

// noiseProcess is a server whose clients add only noise. Draws and returns arrive at random
// times: the number in flight has a Poisson distribution. As at a server, the mean and the radius
// are those of the last multiple of k updates.
type noiseProcess struct {
	bank      *NoiseBank
	r         *rand.Rand
	variance  float64
	inFlight  float64 // its mean
	instances [][]float32
	flying    []flight
	free      [][]float32
	mean      []float64
	radius    float64
	updates   int
}

type flight struct {
	weights []float32
	drawn   int // the number of updates at the draw
}

func newNoiseProcess(bank *NoiseBank, k, width int, inFlight, variance float64, r *rand.Rand) *noiseProcess {
	p := &noiseProcess{bank: bank, r: r, variance: variance, inFlight: inFlight, mean: make([]float64, width)}
	for range k {
		w := make([]float32, width)
		bank.AddTo(w, float32(math.Sqrt(StationaryVariance(k, 1))))
		p.instances = append(p.instances, w)
	}
	p.refresh()
	return p
}

// refresh computes the mean and the radius of the instances.
func (p *noiseProcess) refresh() {
	clear(p.mean)
	for _, w := range p.instances {
		for j, v := range w {
			p.mean[j] += float64(v) / float64(len(p.instances))
		}
	}
	p.radius = 0
	for _, w := range p.instances {
		p.radius = math.Max(p.radius, p.deviation(w))
	}
}

func (p *noiseProcess) deviation(w []float32) (sum float64) {
	for j, v := range w {
		d := float64(v) - p.mean[j]
		sum += d * d
	}
	return sum
}

// draw lets a client draw an instance and add noise.
func (p *noiseProcess) draw() {
	var w []float32
	if n := len(p.free); n > 0 {
		w, p.free = p.free[n-1], p.free[:n-1]
	} else {
		w = make([]float32, len(p.mean))
	}
	copy(w, p.instances[p.r.IntN(len(p.instances))])
	p.bank.AddTo(w, 1)
	p.flying = append(p.flying, flight{w, p.updates})
}

// next lets clients draw until one returns its model in time, which it takes out of the flying
// ones.
func (p *noiseProcess) next() flight {
	for {
		for p.r.Float64()*(p.inFlight+float64(len(p.flying))) >= float64(len(p.flying)) {
			p.draw()
		}
		i, last := p.r.IntN(len(p.flying)), len(p.flying)-1
		f := p.flying[i]
		p.flying[i] = p.flying[last]
		p.flying = p.flying[:last]
		if uint64(p.updates-f.drawn) <= MaxAge(len(p.instances)) {
			return f
		}
		p.free = append(p.free, f.weights)
	}
}

// replace puts a returned model in a random slot.
func (p *noiseProcess) replace(f flight) {
	slot := p.r.IntN(len(p.instances))
	p.free = append(p.free, p.instances[slot])
	p.instances[slot] = f.weights
	if p.updates++; p.updates%len(p.instances) == 0 {
		p.refresh()
	}
}

// ratio is the ratio of a returned model.
func (p *noiseProcess) ratio(f flight) float64 {
	return p.deviation(f.weights) / (p.radius + p.variance*float64(len(p.mean)))
}

// Refresh reads the mean and the spread of the instances. The caller calls it about once in k
// updates: the spread changes in k²/2 updates.
func (f *SpamFilter) Refresh(all *Instances) {
	n := all.Weights()
	mean, variance := make([]float64, n), make([]float64, n)
	all.Moments(mean, variance)
	m := &instanceMoments{mean: make([]float32, n), variance: make([]float32, n)}
	for i := range all.Count() {
		sum := 0.0
		for j, w := range all.At(i).Weights {
			d := float64(w) - mean[j]
			sum += d * d
		}
		m.radius = math.Max(m.radius, sum)
	}
	for j := range mean {
		m.mean[j] = float32(mean[j])
		m.variance[j] = float32(max(variance[j], m.radius/float64(n)))
	}
	f.moments.Store(m)
}

// Test is TestAtRate for the learning rate of the mechanism.
func (f *SpamFilter) Test(weights []float32) Verdict {
	return f.TestAtRate(weights, f.mechanism.settings.LearningRate)
}

// TestAtRate tests a returned model whose draw is at most MaxAge(k) updates old, and whose step had a
// learning rate. Step and noise are proportional to it.
func (f *SpamFilter) TestAtRate(weights []float32, rate float64) Verdict {
	m := f.moments.Load()
	s := f.mechanism.settings
	step := rate * s.Clip // the largest
	noise := f.mechanism.NoiseVariance() * (rate / s.LearningRate) * (rate / s.LearningRate)
	distance := 0.0
	for j, w := range weights {
		d := float64(w) - float64(m.mean[j])
		distance += d * d
		if d = math.Abs(d) - step; d > 0 && d*d > f.weight*(float64(m.variance[j])+noise) {
			return WeightFar
		}
	}
	n := float64(len(weights))
	if !(math.Sqrt(distance) <= step*math.Sqrt(n)+math.Sqrt(f.ratio*(m.radius+n*noise))) { // also NaN
		return ModelFar
	}
	return Accepted
}
