package accountant

import (
	"math"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/numerics"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// epsilon is the value that a calibration compares with its target.
func (p Plan) epsilon(delta float64, accountant string) (float64, error) {
	return Compose(p.History()).ProvenEpsilon(delta, accountant)
}

// precision is the relative distance from its target that a calibration accepts: small
// where ε is smooth, larger where each computation of ε uses a different grid.
func (p Plan) precision(accountant string) float64 {
	asked := Compose(p.History())
	m, _ := asked.method(accountant)
	s := asked.composed
	if m.name != "pld" && !s.isPublished(m) {
		return 1e-10
	}
	if _, exact := dpevent.EquivalentGaussian(s.Events); exact {
		return 1e-13
	}
	return 2e-4
}

// fastAccountant returns a faster accountant whose ε is slightly larger, or "" if there is none.
func (p Plan) fastAccountant(accountant string) string {
	switch name, fixed := orDefault(accountant), p.Sampling.Policy == ledger.FixedSize; {
	case fixed && (name == "pld" || name == "rdp"): // rdp calls pld for these lots
		return "moments"
	case name == "pld":
		return "rdp"
	}
	return ""
}

func checkTarget(epsilon, delta float64) error {
	if !(epsilon > 0) || math.IsInf(epsilon, 0) {
		return dpevent.InvalidArgument("epsilon %v: must be a finite number above 0", epsilon)
	}
	return checkDelta(delta)
}

func checkDelta(delta float64) error {
	if !(delta > 0 && delta < 1) {
		return dpevent.InvalidArgument("delta %v: must be above 0 and below 1", delta)
	}
	return nil
}

// The search for a noise multiplier stays in this range.
const (
	minNoise = 1e-4
	maxNoise = 1e12
)

// Where noise is too small to give any protection, accountants switch to coarser bounds and
// ε jumps. Only targets above unprotectiveEpsilon are near a jump. The search locates it only
// to within jumpTolerance, because each evaluation is slow there.
const (
	unprotectiveEpsilon = 1e4
	jumpTolerance       = 2e-6
)

// CalibrateNoise finds the least noise with which p spends at most epsilon at delta, to
// within 0.1% of epsilon. With this noise the ε of the plan never exceeds the target. It ignores p.Noise.
func CalibrateNoise(p Plan, epsilon, delta float64, accountant string) (float64, error) {
	if err := checkTarget(epsilon, delta); err != nil {
		return 0, err
	}
	if p.Steps < 1 {
		return 0, dpevent.InvalidArgument("%d steps: must be at least 1", p.Steps)
	}
	spent := func(logNoise float64) (float64, error) {
		p.Noise = math.Exp(logNoise)
		return p.epsilon(delta, accountant)
	}
	low, high := math.Log(0.5), math.Log(2)
	if quick := p.fastAccountant(accountant); quick != "" {
		if noise, err := CalibrateNoise(p, epsilon, delta, quick); err == nil {
			high = math.Log(noise)
			low = high - 0.15
		}
	}
	atLow, err := spent(low)
	if err != nil {
		return 0, err
	}
	for stride := high - low; atLow <= epsilon; stride *= 1.5 {
		if low < math.Log(minNoise) {
			return 0, unreachable("epsilon %v is not reached even with noise %.3g, so there is nothing to calibrate; the nearest is epsilon %.6g", epsilon, math.Exp(low), atLow)
		}
		high, low = low, low-stride
		if atLow, err = spent(low); err != nil {
			return 0, err
		}
	}
	atHigh, err := spent(high)
	if err != nil {
		return 0, err
	}
	for stride := math.Ln2; atHigh > epsilon; stride *= 1.5 {
		if high > math.Log(maxNoise) {
			return 0, unreachable("epsilon %v cannot be reached by the %s accountant at delta %s: noise %.3g still spends %.6g", epsilon, orDefault(accountant), formatDelta(delta), math.Exp(high), atHigh)
		}
		low, atLow = high, atHigh
		high += stride
		if atHigh, err = spent(high); err != nil {
			return 0, err
		}
	}
	narrow := numerics.Tolerance
	if epsilon > unprotectiveEpsilon {
		narrow = jumpTolerance
	}
	noise, err := numerics.Root(spent, numerics.Point{X: low, Value: atLow}, numerics.Point{X: high, Value: atHigh},
		epsilon, p.precision(accountant), narrow)
	return math.Exp(noise), err
}

// CalibrateRate finds the largest sampling rate with which p spends at most epsilon at
// delta. For fixed-size and shuffled lots it is that of a whole number of records. It
// ignores p.Sampling.Rate and p.Sampling.LotSize.
func CalibrateRate(p Plan, epsilon, delta float64, accountant string) (float64, error) {
	if err := checkTarget(epsilon, delta); err != nil {
		return 0, err
	}
	if p.Steps < 1 {
		return 0, dpevent.InvalidArgument("%d steps: must be at least 1", p.Steps)
	}
	switch p.Sampling.Policy {
	case ledger.Poisson:
		return calibratePoissonRate(p, epsilon, delta, accountant)
	case ledger.FixedSize, ledger.Shuffle:
		if p.Sampling.Records < 1 {
			return 0, dpevent.InvalidArgument("%s lots need the number of records", p.Sampling.Policy)
		}
		lot, at, err := numerics.LargestInt(p.Sampling.Records, func(lot int) (float64, error) {
			p.Sampling.LotSize = lot
			return p.epsilon(delta, accountant)
		}, epsilon)
		if err != nil {
			return 0, err
		}
		if lot == 0 {
			return 0, unreachable("epsilon %v cannot be reached at delta %s: lots of one record already spend %.6g", epsilon, formatDelta(delta), at)
		}
		return float64(lot) / float64(p.Sampling.Records), nil
	default:
		return 0, dpevent.InvalidArgument("sampling %q has no rate to calibrate: use %s, %s or %s", p.Sampling.Policy, ledger.Poisson, ledger.FixedSize, ledger.Shuffle)
	}
}

const minRate = 1e-12

func calibratePoissonRate(p Plan, epsilon, delta float64, accountant string) (float64, error) {
	spent := func(minusLogRate float64) (float64, error) {
		p.Sampling.Rate = math.Exp(-minusLogRate)
		return p.epsilon(delta, accountant)
	}
	low := 0.0
	atLow, err := spent(low)
	if err != nil {
		return 0, err
	}
	high, atHigh := low, atLow
	for atHigh > epsilon {
		if high > -math.Log(minRate) {
			return 0, unreachable("epsilon %v cannot be reached at delta %s: rate %.3g still spends %.6g", epsilon, formatDelta(delta), math.Exp(-high), atHigh)
		}
		low, atLow = high, atHigh
		high += 2
		if atHigh, err = spent(high); err != nil {
			return 0, err
		}
	}
	rate, err := numerics.Root(spent, numerics.Point{X: low, Value: atLow}, numerics.Point{X: high, Value: atHigh},
		epsilon, p.precision(accountant), numerics.Tolerance)
	return math.Exp(-rate), err
}

const maxSteps = min(1<<40, math.MaxInt)

// CalibrateSteps finds the largest number of steps with which p spends at most epsilon at
// delta. It ignores p.Steps.
func CalibrateSteps(p Plan, epsilon, delta float64, accountant string) (int, error) {
	if err := checkTarget(epsilon, delta); err != nil {
		return 0, err
	}
	steps, at, err := numerics.LargestInt(maxSteps, func(steps int) (float64, error) {
		p.Steps = steps
		return p.epsilon(delta, accountant)
	}, epsilon)
	switch {
	case err != nil:
		return 0, err
	case steps == 0:
		return 0, unreachable("epsilon %v cannot be reached at delta %s: one step already spends %.6g", epsilon, formatDelta(delta), at)
	case steps == maxSteps:
		return 0, unreachable("epsilon %v is not spent in %d steps at delta %s: they spend %.6g", epsilon, steps, formatDelta(delta), at)
	}
	return steps, nil
}

// CalibrateDelta finds the least δ at which p spends at most epsilon, to within 0.1% of
// epsilon where the accountant is that precise. At this δ the ε of the plan never exceeds
// the target. The result is 1 if no δ below 1 suffices, and 0 if no
// δ is needed.
func CalibrateDelta(p Plan, epsilon float64, accountant string) (float64, error) {
	answer, err := Delta(p.History(), epsilon, accountant)
	start := answer.Delta
	if err != nil || start == 0 || start >= 1 {
		return start, err
	}
	spent := func(logDelta float64) (float64, error) { return p.epsilon(math.Exp(logDelta), accountant) }
	precision := p.precision(accountant)
	high := math.Log(start)
	atHigh, err := spent(high)
	low, atLow := high, atHigh
	for stride := precision; err == nil && atHigh > epsilon; stride *= 2 {
		low, atLow = high, atHigh
		if high += stride; math.Exp(high) >= 1 {
			return 1, nil
		}
		atHigh, err = spent(high)
	}
	for stride := precision; err == nil && atLow <= epsilon && atHigh < epsilon*(1-precision) && low > math.Log(minDelta); stride *= 2 {
		high, atHigh = low, atLow
		low = max(low-stride, math.Log(minDelta))
		atLow, err = spent(low)
	}
	if err != nil {
		return 0, err
	}
	if atLow <= epsilon {
		high = low
	} else if epsilon > 0 {
		high, err = numerics.Root(spent, numerics.Point{X: low, Value: atLow}, numerics.Point{X: high, Value: atHigh},
			epsilon, precision, numerics.Tolerance)
	}
	return math.Exp(high), err
}

// minDelta bounds the search for δ from below.
const minDelta = 1e-300
