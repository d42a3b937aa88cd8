package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// AccountantName is the descriptive name of an accountant, for charts and tables.
func AccountantName(name string) string {
	if description, ok := accountantNames[name]; ok {
		return description
	}
	return name
}

var accountantNames = map[string]string{
	"pld":     "privacy-loss distributions",
	"rdp":     "Rényi",
	"moments": "moments accountant",
	"gdp":     "central limit (approx.)",
	"tcdp":    "truncated concentrated",
	"zcdp":    "zero-concentrated",
	"strong":  "strong composition",
	"naive":   "naive composition",
}

// powerOfTen writes three digits, rounded up, with a typeset power of ten: 10⁻⁵ for 1e-5.
func powerOfTen(x float64) string {
	mantissa, exponent, scientific := strings.Cut(number.Round(x, 1, 3), "e")
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

// tickLabel labels a tick mark.
func tickLabel(v float64) string {
	switch {
	case v >= 1000 && v < 1e7 && v == math.Trunc(v):
		return number.Thousands(int(v))
	case v >= 1e-3 && v < 1e7 || v == 0:
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return powerOfTen(v)
}

// ValueRange writes a value that may change during a run.
func ValueRange(low, high float64) string {
	if a, b := number.Short(low), number.Short(high); a != b {
		return a + " to " + b
	}
	return number.Short(low)
}

// finiteNumber writes x, or that it is not finite.
func finiteNumber(x number.Float) string {
	if math.IsNaN(float64(x)) {
		return "not a finite number"
	}
	return number.Short(float64(x))
}

// percent keeps two decimals. It writes 100% only if share is 1.
func percent(share float64) string {
	if share < 1 {
		share = min(share, 0.9999)
	}
	return strconv.FormatFloat(100*share, 'f', 2, 64) + "%"
}

// budgetShare writes a share between 0% and 100% without rounding it to either.
func budgetShare(share float64) string {
	switch {
	case share < 0.0005:
		return "< 0.1%"
	case share > 0.9995:
		return "> 99.9%"
	}
	return strconv.FormatFloat(100*share, 'f', 1, 64) + "%"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return number.Thousands(n) + " " + noun + "s"
}

// speed writes a rate with the precision that the run itself prints.
func speed(examplesPerSecond float64) string {
	if examplesPerSecond < 9.95 {
		return strconv.FormatFloat(examplesPerSecond, 'g', 2, 64) + " examples/s"
	}
	return number.Thousands(int(math.RoundToEven(examplesPerSecond))) + " examples/s"
}

// duration writes at most two units.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}
