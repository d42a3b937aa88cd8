package accountant

import "math"

// Plan is what a run would spend: Steps equal lots.
type Plan struct {
	Sampling Sampling
	Steps    int
	// Noise is the noise multiplier: one Gaussian group of sensitivity 1 with
	// σ = Noise. Where Groups are given it is the factor on the noise of each, and
	// 0 stands for 1.
	Noise     float64
	Groups    []Query
	Adjacency Adjacency
}

// History is the ledger that the plan would leave behind.
func (p Plan) History() History {
	queries := []Query{{Group: "all", Mechanism: Gaussian, Sensitivity: 1, Noise: p.Noise}}
	if len(p.Groups) > 0 {
		factor := p.Noise
		if factor == 0 {
			factor = 1
		}
		queries = make([]Query, len(p.Groups))
		for i, q := range p.Groups {
			queries[i] = q
			queries[i].Noise *= factor
		}
	}
	return History{
		Header: Header{Version: 1, Records: p.Sampling.Records, Adjacency: p.Adjacency},
		Spent:  []Spent{{Lot{p.Sampling, queries}, p.Steps}},
	}
}

// epsilon is what a calibration holds to its target.
func (p Plan) epsilon(delta float64, accountant string) (float64, error) {
	return Prepare(p.History()).Bound(delta, accountant)
}

// precision is how near a calibration comes to its target: to the last digits where
// ε is smooth, less where it comes from a grid that is chosen anew each time.
func (p Plan) precision(accountant string) float64 {
	asked := Prepare(p.History())
	m, _ := asked.method(accountant)
	s := asked.spending
	if m.name != "pld" && !s.published(m) {
		return 1e-10
	}
	if _, exact := s.oneGaussian(); exact {
		return 1e-13
	}
	return 2e-4
}

// quick is an accountant that is quick where the one named is not, and a little above it.
func (p Plan) quick(accountant string) string {
	switch name, fixed := nameOf(accountant), p.Sampling.Policy == Fixed; {
	case fixed && (name == "pld" || name == "rdp"): // which asks pld
		return "moments"
	case name == "pld":
		return "rdp"
	}
	return ""
}

func checkTarget(epsilon, delta float64) error {
	if !(epsilon > 0) || math.IsInf(epsilon, 0) {
		return badArgument("epsilon %v: must be a finite number above 0", epsilon)
	}
	return checkDelta(delta)
}

func checkDelta(delta float64) error {
	if !(delta > 0 && delta < 1) {
		return badArgument("delta %v: must be above 0 and below 1", delta)
	}
	return nil
}

// Noise multipliers outside this range are not looked for.
const (
	leastNoise = 1e-4
	mostNoise  = 1e12
)

// Where accountants give up on so little noise that it protects nobody, ε jumps, which
// only targets above absurd are near. Such a place is looked for to within jump, since
// each look takes long there.
const (
	absurd = 1e4
	jump   = 2e-6
)

// CalibrateNoise finds the least noise with which p spends at most epsilon at
// delta, to within 0.1% of epsilon: the Bound of the plan's Epsilon with this noise
// never exceeds the target. p.Noise is not read.
func CalibrateNoise(p Plan, epsilon, delta float64, accountant string) (float64, error) {
	if err := checkTarget(epsilon, delta); err != nil {
		return 0, err
	}
	if p.Steps < 1 {
		return 0, badArgument("%d steps: must be at least 1", p.Steps)
	}
	spent := func(logNoise float64) (float64, error) {
		p.Noise = math.Exp(logNoise)
		return p.epsilon(delta, accountant)
	}
	low, high := math.Log(0.5), math.Log(2)
	if quick := p.quick(accountant); quick != "" {
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
		if low < math.Log(leastNoise) {
			return 0, unreachable("epsilon %v is not spent even with noise %.3g: nothing to calibrate; the nearest is epsilon %.6g", epsilon, math.Exp(low), atLow)
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
		if high > math.Log(mostNoise) {
			return 0, unreachable("epsilon %v cannot be reached by the %s accountant at delta %s: noise %.3g still spends %.6g", epsilon, nameOf(accountant), written(delta), math.Exp(high), atHigh)
		}
		low, atLow = high, atHigh
		high += stride
		if atHigh, err = spent(high); err != nil {
			return 0, err
		}
	}
	narrow := rounding
	if epsilon > absurd {
		narrow = jump
	}
	noise, err := root(spent, low, atLow, high, atHigh, epsilon, p.precision(accountant), narrow)
	return math.Exp(noise), err
}

// CalibrateRate finds the largest sampling rate with which p spends at most
// epsilon at delta: with lots of a fixed size or shuffled ones, that of a whole
// number of records. p.Sampling's rate or lot is not read.
func CalibrateRate(p Plan, epsilon, delta float64, accountant string) (float64, error) {
	if err := checkTarget(epsilon, delta); err != nil {
		return 0, err
	}
	if p.Steps < 1 {
		return 0, badArgument("%d steps: must be at least 1", p.Steps)
	}
	switch p.Sampling.Policy {
	case Poisson:
		return calibratePoissonRate(p, epsilon, delta, accountant)
	case Fixed, Shuffle:
		if p.Sampling.Records < 1 {
			return 0, badArgument("%s lots need the number of records", p.Sampling.Policy)
		}
		lot, at, err := largest(p.Sampling.Records, func(lot int) (float64, error) {
			p.Sampling.Lot = lot
			return p.epsilon(delta, accountant)
		}, epsilon)
		if err != nil {
			return 0, err
		}
		if lot == 0 {
			return 0, unreachable("epsilon %v cannot be reached at delta %s: lots of one record already spend %.6g", epsilon, written(delta), at)
		}
		return float64(lot) / float64(p.Sampling.Records), nil
	default:
		return 0, badArgument("sampling %q has no rate to calibrate: use %s, %s or %s", p.Sampling.Policy, Poisson, Fixed, Shuffle)
	}
}

const leastRate = 1e-12

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
	if atLow <= epsilon {
		return 1, nil
	}
	high, atHigh := low, atLow
	for atHigh > epsilon {
		if high > -math.Log(leastRate) {
			return 0, unreachable("epsilon %v cannot be reached at delta %s: rate %.3g still spends %.6g", epsilon, written(delta), math.Exp(-high), atHigh)
		}
		low, atLow = high, atHigh
		high += 2
		if atHigh, err = spent(high); err != nil {
			return 0, err
		}
	}
	rate, err := root(spent, low, atLow, high, atHigh, epsilon, p.precision(accountant), rounding)
	return math.Exp(-rate), err
}

const mostSteps = min(1<<40, math.MaxInt)

// CalibrateSteps finds the largest number of steps with which p spends at most
// epsilon at delta. p.Steps is not read.
func CalibrateSteps(p Plan, epsilon, delta float64, accountant string) (int, error) {
	if err := checkTarget(epsilon, delta); err != nil {
		return 0, err
	}
	steps, at, err := largest(mostSteps, func(steps int) (float64, error) {
		p.Steps = steps
		return p.epsilon(delta, accountant)
	}, epsilon)
	switch {
	case err != nil:
		return 0, err
	case steps == 0:
		return 0, unreachable("epsilon %v cannot be reached at delta %s: one step already spends %.6g", epsilon, written(delta), at)
	case steps == mostSteps:
		return 0, unreachable("epsilon %v is not spent in %d steps at delta %s: they spend %.6g", epsilon, steps, written(delta), at)
	}
	return steps, nil
}

// CalibrateDelta finds the least δ at which p spends at most epsilon, to within 0.1% of
// epsilon where ε is that sharp: the Bound of the plan's Epsilon at this δ never exceeds
// the target. It is 1 if no δ below that will do, and 0 if epsilon is never exceeded.
func CalibrateDelta(p Plan, epsilon float64, accountant string) (float64, error) {
	answer, err := Delta(p.History(), epsilon, accountant)
	start := max(answer.Delta, answer.Proven)
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
	for stride := precision; err == nil && atLow <= epsilon && atHigh < epsilon*(1-precision) && low > math.Log(leastDelta); stride *= 2 {
		high, atHigh = low, atLow
		low = max(low-stride, math.Log(leastDelta))
		atLow, err = spent(low)
	}
	if err != nil {
		return 0, err
	}
	if atLow <= epsilon {
		high = low
	} else if epsilon > 0 {
		high, err = root(spent, low, atLow, high, atHigh, epsilon, precision, rounding)
	}
	return math.Exp(high), err
}

// leastDelta is below every δ that is looked for.
const leastDelta = 1e-300

// rounding is how near a place can be found in float64.
const rounding = 1e-13

// root finds the least x in [low, high] with f(x) ≤ target < f(low), f falling:
// it returns an x that f was found to keep the target at, and within precision of it, or
// within narrow of the place where f jumps over it. It draws lines through the
// logarithms of f, and halves where that is slow.
func root(f func(float64) (float64, error), low, atLow, high, atHigh, target, precision, narrow float64) (float64, error) {
	gap := func(v float64) float64 { return math.Log(max(v, 1e-300) / target) }
	c := crossing{low: low, atLow: gap(atLow), high: high, atHigh: gap(atHigh)}
	for i := 0; i < 60 && atHigh < target*(1-precision) && c.high-c.low > narrow*max(1, math.Abs(c.high)); i++ {
		x := c.line()
		if !(x > c.low && x < c.high) || math.IsInf(c.atLow, 0) || i%8 == 7 {
			x = (c.low + c.high) / 2
		} else if nudge := precision / 5 * max(1e-3, math.Abs(x)); c.high-x > 4*nudge {
			x += nudge // rather a little above the target than just below
		}
		at, err := f(x)
		if err != nil {
			return 0, err
		}
		if c.move(at <= target, x, gap(at)); at <= target {
			atHigh = at
		}
	}
	return c.high, nil
}

// largest finds the largest n ≤ most with f(n) ≤ target, f rising, and f there; 0
// and f(1) if there is none.
func largest(most int, f func(int) (float64, error), target float64) (int, float64, error) {
	at, err := f(1)
	if err != nil || at > target {
		return 0, at, err
	}
	low, atLow := 1, at
	high, atHigh := 1, at
	for atHigh <= target {
		low, atLow = high, atHigh
		if low == most {
			return most, at, nil
		}
		high = min(most, 4*low)
		if atHigh, err = f(high); err != nil {
			return 0, 0, err
		}
	}
	for i := 0; high-low > 1; i++ {
		middle := low + (high-low)/2
		if i%3 != 2 && atLow > 0 && !math.IsInf(atHigh, 0) { // ε is near a power of n
			part := math.Log(target/atLow) / math.Log(atHigh/atLow)
			guess := float64(low) * math.Pow(float64(high)/float64(low), part)
			middle = min(high-1, max(low+1, int(guess)))
		}
		at, err := f(middle)
		if err != nil {
			return 0, 0, err
		}
		if at <= target {
			low, atLow = middle, at
		} else {
			high, atHigh = middle, at
		}
	}
	return low, atLow, nil
}
