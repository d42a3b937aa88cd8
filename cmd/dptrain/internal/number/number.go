// Package number writes numbers for people and for JSON.
//
// A printed ε, δ or noise multiplier must not promise more privacy than the value does, so
// RoundUp and RoundDown round in one direction only.
package number

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Float is a float64 that JSON can represent: +Inf becomes the string "Infinity", and NaN,
// which marks an unknown value, becomes null.
type Float float64

func (x Float) MarshalJSON() ([]byte, error) {
	switch {
	case math.IsInf(float64(x), 1):
		return []byte(`"Infinity"`), nil
	case math.IsNaN(float64(x)):
		return []byte("null"), nil
	}
	return json.Marshal(float64(x))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (x *Float) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"Infinity"`:
		*x = Float(math.Inf(1))
		return nil
	case "null":
		*x = Float(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(x))
}

// RoundUp writes x with six significant digits. The written number is not below x.
func RoundUp(x float64) string { return Round(x, 1, 6) }

// RoundDown writes x with six significant digits. The written number is not above x.
func RoundDown(x float64) string { return Round(x, -1, 6) }

// Round writes x with the given number of significant digits, rounded up where direction
// is 1 and down where it is -1.
func Round(x float64, direction, digits int) string {
	if math.IsInf(x, 0) {
		return "∞"
	}
	text := Format(x, digits)
	nearest, err := strconv.ParseFloat(text, 64)
	if err != nil || x <= 0 || direction > 0 && nearest >= x || direction < 0 && nearest <= x {
		return text
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-float64(digits-1))
	return Format(nearest+float64(direction)*unit, digits)
}

// Short writes the nearest number with four significant digits.
func Short(x float64) string { return Format(x, 4) }

// Format writes x with the given number of significant digits, or with as many as needed
// to read the same float64 back if digits is -1. It writes 1e-5 where strconv writes 1e-05.
func Format(x float64, digits int) string {
	return strings.Replace(strconv.FormatFloat(x, 'g', digits, 64), "e-0", "e-", 1)
}

// TwoDigits rounds a finite number to two significant digits. Durations and speeds that a run
// publishes are rounded: they depend on the realised sizes of its lots, and more digits would serve
// an adversary only.
func TwoDigits(x float64) float64 {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 2, 64), 64)
	return x
}

// Thousands writes n with a narrow no-break space between groups of three digits.
func Thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s\u202f%03d", Thousands(n/1000), n%1000)
}

// Plural writes a count and its noun: 1 lot, 2 lots.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Multiples returns about limit multiples of 1, 2 or 5 times a power of ten between low
// and high: the tick marks of an axis.
func Multiples(low, high float64, limit int) []float64 {
	if !(high > low) {
		return nil
	}
	unit := math.Pow(10, math.Floor(math.Log10(high-low)))
	for _, share := range []float64{0.1, 0.2, 0.5, 1, 2} {
		if step := unit * share; (high-low)/step <= float64(limit-1) {
			unit = step
			break
		}
	}
	var values []float64
	for i := math.Ceil(low / unit * (1 - 1e-12)); i*unit <= high*(1+1e-9); i++ {
		values = append(values, i*unit)
	}
	return values
}
