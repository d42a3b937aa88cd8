package accountant

// crossing is two places between which a falling function crosses a target, and by how
// much it is above the target there.
type crossing struct {
	low, atLow   float64
	high, atHigh float64
	moved        int // which end did last: -1 the low one, 1 the high one
}

// line is the place where the line through both ends meets the target.
func (c *crossing) line() float64 {
	return c.high - c.atHigh*(c.high-c.low)/(c.atHigh-c.atLow)
}

// move takes an end to x, where the function is above the target by at. If the other end
// stays for the second time, it counts half (the Illinois rule).
func (c *crossing) move(high bool, x, at float64) {
	if high {
		c.high, c.atHigh = x, at
		if c.moved == 1 {
			c.atLow /= 2
		}
		c.moved = 1
		return
	}
	c.low, c.atLow = x, at
	if c.moved == -1 {
		c.atHigh /= 2
	}
	c.moved = -1
}
