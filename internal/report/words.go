package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// RoundUp and RoundDown write six digits of a number, rounded one way: what is
// printed must not promise more privacy than x does.
func RoundUp(x float64) string   { return rounded(x, 1, 6) }
func RoundDown(x float64) string { return rounded(x, -1, 6) }

func rounded(x float64, way, digits int) string {
	if math.IsInf(x, 0) {
		return "∞"
	}
	text := written(x, digits)
	near, err := strconv.ParseFloat(text, 64)
	if err != nil || x <= 0 || way > 0 && near >= x || way < 0 && near <= x {
		return text
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-float64(digits-1))
	return written(near+float64(way)*unit, digits)
}

// Short writes four digits.
func Short(x float64) string { return written(x, 4) }

// written is a number in so many digits, or as many as it takes (-1): 1e-5 rather than
// 1e-05.
func written(x float64, digits int) string {
	return strings.Replace(strconv.FormatFloat(x, 'g', digits, 64), "e-0", "e-", 1)
}

// Thousands writes n with a thin space between thousands, at which no line breaks.
func Thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s\u202f%03d", Thousands(n/1000), n%1000)
}

// AccountantName is what an accountant is called in a picture.
func AccountantName(name string) string {
	if words, ok := accountantNames[name]; ok {
		return words
	}
	return name
}

var accountantNames = map[string]string{
	"pld":     "privacy-loss distributions",
	"rdp":     "Rényi",
	"moments": "moments accountant",
	"gdp":     "central limit (approx.)",
	"zcdp":    "zero-concentrated",
	"strong":  "strong composition",
	"naive":   "naive composition",
}

// raised writes three digits, rounded up, with a power of ten as print does:
// 10⁻⁵ for 1e-5.
func raised(x float64) string {
	mantissa, exponent, scientific := strings.Cut(rounded(x, 1, 3), "e")
	if !scientific {
		return mantissa
	}
	n, err := strconv.Atoi(exponent)
	if err != nil {
		return mantissa + "e" + exponent
	}
	power := "10" + strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴",
		"5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹").Replace(strconv.Itoa(n))
	if mantissa == "1" {
		return power
	}
	return mantissa + "·" + power
}

// span writes a quantity that may have moved during a run.
func span(low, high float64) string {
	if a, b := Short(low), Short(high); a != b {
		return a + " to " + b
	}
	return Short(low)
}

// percent keeps two decimals, and says 100% of nothing less.
func percent(share float64) string {
	if share < 1 {
		share = min(share, 0.9999)
	}
	return strconv.FormatFloat(100*share, 'f', 2, 64) + "%"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Thousands(n) + " " + noun + "s"
}
