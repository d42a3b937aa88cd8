package numerics

import "math"

// falsePosition is an interval in which a decreasing function crosses a target, with the
// excess of the function over the target at both ends. It implements the Illinois variant
// of the method of false position.
type falsePosition struct {
	low, lowExcess   float64
	high, highExcess float64
	lastMoved        int // the end moved last: -1 the low end, 1 the high end
}

// intersection is where the line through both ends crosses the target.
func (c *falsePosition) intersection() float64 {
	return c.high - c.highExcess*(c.high-c.low)/(c.highExcess-c.lowExcess)
}

// move moves an end to x, where the excess is at. If the other end stays for the second
// time, its excess is halved (the Illinois rule).
func (c *falsePosition) move(high bool, x, at float64) {
	if high {
		c.high, c.highExcess = x, at
		if c.lastMoved == 1 {
			c.lowExcess /= 2
		}
		c.lastMoved = 1
		return
	}
	c.low, c.lowExcess = x, at
	if c.lastMoved == -1 {
		c.highExcess /= 2
	}
	c.lastMoved = -1
}

// Narrow shortens an interval in which the decreasing function f crosses target: f is at
// least target at below and at most target at above.
func Narrow(f func(float64) float64, below, above, target float64) (float64, float64) {
	gap := func(x float64) float64 { return math.Log(max(f(x), 1e-320) / target) }
	c := falsePosition{low: below, lowExcess: gap(below), high: above, highExcess: gap(above)}
	for i := 1; i < 100 && c.high-c.low > 1e-10*c.high; i++ {
		x := c.intersection()
		if i%6 == 0 || !(x > c.low && x < c.high) {
			x = c.low + (c.high-c.low)/2
		}
		at := gap(x)
		c.move(at <= 0, x, at)
	}
	return c.low, c.high
}

// Tolerance is the relative precision to which float64 can locate a crossing.
const Tolerance = 1e-13

// A Point is an argument of a function and its value there.
type Point struct{ X, Value float64 }

// Root finds the least x from below to above with f(x) ≤ target < f(below) for a decreasing f. At
// the x that it returns, f was evaluated and is at most target. Either f(x) is within
// precision of target, relatively, or x is within narrow of a place where f jumps across
// target. It applies false position to log f and bisects where that converges slowly.
func Root(f func(float64) (float64, error), below, above Point, target, precision, narrow float64) (float64, error) {
	low, atLow, high, atHigh := below.X, below.Value, above.X, above.Value
	gap := func(v float64) float64 { return math.Log(max(v, 1e-300) / target) }
	c := falsePosition{low: low, lowExcess: gap(atLow), high: high, highExcess: gap(atHigh)}
	for i := 0; i < 60 && atHigh < target*(1-precision) && c.high-c.low > narrow*max(1, math.Abs(c.high)); i++ {
		x := c.intersection()
		if !(x > c.low && x < c.high) || math.IsInf(c.lowExcess, 0) || i%8 == 7 {
			x = (c.low + c.high) / 2
		} else if nudge := precision / 5 * max(1e-3, math.Abs(x)); c.high-x > 4*nudge {
			x += nudge // a value of f slightly below target is useful, one slightly above is not
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

// LargestInt finds the largest n ≤ most with f(n) ≤ target for an increasing f. It returns
// n and f(n), or 0 and f(1) if there is no such n.
func LargestInt(most int, f func(int) (float64, error), target float64) (int, float64, error) {
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
		if i%3 != 2 && atLow > 0 && !math.IsInf(atHigh, 0) { // f is close to a power of n
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
