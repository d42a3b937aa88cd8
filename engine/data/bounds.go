package data

import (
	"fmt"
	"strconv"
	"strings"
)

// Bounds are the public limits, low and high, of a numeric column.
type Bounds [2]float64

// proper reports whether there are numbers between the limits.
func (b Bounds) proper() bool {
	width := b[1] - b[0]
	return width > 0 && width <= 1e300
}

// Scale is where a number lies between the limits, from -1 to 1; beyond a limit it
// counts as the limit.
func (b Bounds) Scale(v float64) float32 {
	low, high := b[0], b[1]
	v = min(max(v, low), high)
	return float32(2*((v-low)/(high-low)) - 1)
}

// Unscale is the number that is scaled to x, or would be were there no limits: what a network
// answers of a target in the target's own units.
func (b Bounds) Unscale(x float64) float64 { return b[0] + (x+1)*b.ScaleFactor() }

// ScaleFactor is the difference of two numbers that are 1 apart once they are scaled.
func (b Bounds) ScaleFactor() float64 { return (b[1] - b[0]) / 2 }

// ParseBounds reads limits as a flag gives them: COLUMN=LOW:HIGH, several with
// commas between.
func ParseBounds(text string) (map[string]Bounds, error) {
	bounds := map[string]Bounds{}
	for _, entry := range words(text, ",") {
		wrong := fmt.Errorf("bounds %q: write COLUMN=LOW:HIGH, such as age=0:120", entry)
		cut := strings.LastIndex(entry, "=")
		if cut < 1 {
			return nil, wrong
		}
		low, high, ok := strings.Cut(entry[cut+1:], ":")
		l, errLow := strconv.ParseFloat(strings.TrimSpace(low), 64)
		h, errHigh := strconv.ParseFloat(strings.TrimSpace(high), 64)
		if !ok || errLow != nil || errHigh != nil {
			return nil, wrong
		}
		bounds[strings.TrimSpace(entry[:cut])] = Bounds{l, h}
	}
	return bounds, Schema{Bounds: bounds}.validate()
}
