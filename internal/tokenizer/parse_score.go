package tokenizer

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// parseScore returns the number that the Python package reads: that of the Rust library serde_json, which can differ from
// the nearest one in the last bit. Scores that are equal up to it decide between paths of equal pieces.
//
// The library takes the digits as an integer, until the next one overflows 64 bits, and divides it by a power of ten.
func parseScore(text string) (float64, error) {
	if exact, err := strconv.ParseFloat(text, 64); err != nil || math.IsInf(exact, 0) {
		return 0, fmt.Errorf("the score %.40q is no number", text)
	}
	mantissa, power, _ := strings.Cut(strings.ToLower(text), "e")
	exponent := 0
	if power != "" {
		var err error
		if exponent, err = strconv.Atoi(power); err != nil {
			return 0, fmt.Errorf("the score %.40q is out of range", text)
		}
	}
	digits, isNegative := strings.CutPrefix(mantissa, "-")
	whole, decimals, _ := strings.Cut(digits, ".")
	significand, full := uint64(0), false
	add := func(digit byte) bool {
		d := uint64(digit - '0')
		full = full || significand > math.MaxUint64/10 || significand == math.MaxUint64/10 && d > math.MaxUint64%10
		if !full {
			significand = significand*10 + d
		}
		return !full
	}
	for i := range len(whole) {
		if !add(whole[i]) {
			exponent++
		}
	}
	for i := range len(decimals) {
		if add(decimals[i]) {
			exponent--
		}
	}
	value := float64(significand)
	for ; exponent < -308 && value != 0; exponent += 308 {
		value /= 1e308
	}
	switch {
	case exponent < 0:
		value /= math.Pow10(max(exponent, -308) * -1)
	case exponent <= 308:
		value *= math.Pow10(exponent)
	case value != 0:
		return 0, fmt.Errorf("the score %.40q is out of range", text)
	}
	if isNegative {
		value = -value
	}
	return value, nil
}
