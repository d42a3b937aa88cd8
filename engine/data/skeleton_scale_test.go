package data

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// skewedColumn is a kind of column and the scale that the rule gives it.
type skewedColumn struct {
	draw  func(r *rand.Rand) float64
	scale Scale
}

// skewedColumns are columns on both sides of the rule's limits.
func skewedColumns() map[string]skewedColumn {
	zeroOr := func(share float64, draw func(r *rand.Rand) float64) func(r *rand.Rand) float64 {
		return func(r *rand.Rand) float64 {
			if r.Float64() < share {
				return 0
			}
			return draw(r)
		}
	}
	income := func(r *rand.Rand) float64 { return math.Round(math.Exp(8 + 1.5*r.NormFloat64())) }
	return map[string]skewedColumn{
		"normal":        {func(r *rand.Rand) float64 { return 5 + r.NormFloat64() }, ""},
		"uniform":       {func(r *rand.Rand) float64 { return 100 * r.Float64() }, ""},
		"a little":      {func(r *rand.Rand) float64 { return math.Exp(0.4 * r.NormFloat64()) }, ""},
		"to the left":   {func(r *rand.Rand) float64 { return 1e6 - math.Exp(1.2*r.NormFloat64()) }, ""},
		"both signs, 0": {func(r *rand.Rand) float64 { return 1000 * r.NormFloat64() }, ""},
		"small counts":  {func(r *rand.Rand) float64 { return math.Floor(0.8 * r.ExpFloat64()) }, ""},
		"shares":        {zeroOr(0.5, func(r *rand.Rand) float64 { return 0.01 * math.Exp(r.NormFloat64()) }), ""},
		"log-normal":    {func(r *rand.Rand) float64 { return math.Exp(1.2 * r.NormFloat64()) }, LogScale},
		"income":        {income, LogScale},
		"often no":      {zeroOr(0.5, income), ASinhScale},
		"both signs":    {func(r *rand.Rand) float64 { return income(r) * float64(2*r.IntN(2)-1) }, ASinhScale},
		"some are tiny": {func(r *rand.Rand) float64 { return math.Exp(300 * (r.Float64() - 1)) }, LogScale},
		"too large":     {func(r *rand.Rand) float64 { return 1e298 * r.Float64() }, ""},
	}
}

// A scale is proposed where it at least halves a large kurtosis, as two passes over the numbers compute
// it, and the bounds contain the numbers and fit the scale.
func TestProposeScale(t *testing.T) {
	for name, c := range skewedColumns() {
		r := rand.New(rand.NewPCG(1, 9))
		column := &columnSummary{name: name}
		var numbers []float64
		for range 2000 {
			v := c.draw(r)
			numbers = append(numbers, v)
			column.add(fmt.Sprint(v))
		}
		p := column.proposeScale()
		if p.scale != c.scale {
			t.Errorf("%s: scale %q, want %q (%+v)", name, p.scale, c.scale, p)
			continue
		}
		if err := p.scale.check(p.bounds); err != nil || p.bounds[0] > slices.Min(numbers) || p.bounds[1] < slices.Max(numbers) {
			t.Errorf("%s: bounds %v of numbers from %v to %v: %v", name, p.bounds, slices.Min(numbers), slices.Max(numbers), err)
		}
		if p.scale == "" {
			continue
		}
		plain, scaled := kurtosisOf(numbers, ""), kurtosisOf(numbers, p.scale)
		if math.Abs(p.plain/plain-1) > 1e-9 || math.Abs(p.scaled/scaled-1) > 1e-9 || plain < leastKurtosis || scaled > plain/kurtosisGain {
			t.Errorf("%s: kurtosis %v and %v, want %v and %v", name, p.plain, p.scaled, plain, scaled)
		}
	}
}

// kurtosisOf computes the kurtosis of scaled numbers in two passes.
func kurtosisOf(numbers []float64, scale Scale) float64 {
	n := float64(len(numbers))
	var mean, two, four float64
	for _, v := range numbers {
		mean += scale.apply(v) / n
	}
	for _, v := range numbers {
		d := scale.apply(v) - mean
		two += d * d / n
		four += d * d * d * d / n
	}
	return four / (two * two)
}

// Few numbers do not show that a column is skewed.
func TestProposeScale_FewNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	c := &columnSummary{}
	c.add("1e9")
	for c.plain.count < leastScaled-1 {
		c.add(fmt.Sprint(math.Exp(3 * r.NormFloat64())))
	}
	if p := c.proposeScale(); p.scale != "" {
		t.Errorf("%d numbers: %+v", leastScaled-1, p)
	}
	c.add("1")
	if p := c.proposeScale(); p.scale != LogScale {
		t.Errorf("%d numbers: %+v", leastScaled, p)
	}
}

// The schema of a public table scales skewed features, not a skewed target, and states how to undo it:
// without its lines the schema is still complete.
func TestSchemaSkeleton_ScalesSkewedColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	b.WriteString("age,\"in: come\",gain,price\n")
	for range 500 {
		gain := 0.0
		if r.Float64() < 0.3 {
			gain = math.Exp(7 + r.NormFloat64())
		}
		fmt.Fprintf(&b, "%d,%.2f,%.0f,%.2f\n", 20+r.IntN(60), math.Exp(9+1.2*r.NormFloat64()), gain, math.Exp(3+1.5*r.NormFloat64()))
	}
	var scaled []string
	o := SkeletonOptions{Public: true, Target: "price", Scaled: func(columns []string) { scaled = columns }}
	text, err := skeletonOf(t, "a.csv", b.String(), o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := parseSchema([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(s.Scale) != "map[gain:asinh in: come:log]" || !slices.Equal(scaled, []string{"in: come", "gain"}) {
		t.Errorf("scales %v, reported %q:\n%s", s.Scale, scaled, text)
	}
	if !strings.Contains(text, "To keep the numbers as they are, remove the lines") {
		t.Errorf("how to undo it is missing:\n%s", text)
	}
	start := strings.Index(text, "# These numbers are skewed")
	length := strings.Index(text[start:]+"\n\n", "\n\n")
	undone := text[:start] + text[min(len(text), start+length):]
	for _, text := range []string{text, undone} {
		s, err := parseSchema([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if set, _, err := readCSV(strings.NewReader(b.String()), s, rowPolicy{}); err != nil || set.Len() != 500 {
			t.Errorf("%v:\n%s", err, text)
		}
	}
	if s, err := parseSchema([]byte(undone)); err != nil || len(s.Scale) > 0 {
		t.Errorf("without the lines: %v, %v", s.Scale, err)
	}
}

// Bounds of a logarithm are 1, 2 or 5 times a power of ten, and near the numbers.
func TestRoundRatioOutwards(t *testing.T) {
	for in, want := range map[Bounds]Bounds{
		{0.03, 60}: {0.02, 100}, {1, 10}: {1, 10}, {2, 5}: {2, 5}, {12285, 1484705}: {10000, 2e6}, {0.19, 0.21}: {0.1, 0.5}, {5e-324, 1}: {5e-324, 1}, {1e-299, 1e299}: {1e-299, 1e299},
	} {
		if got := roundRatioOutwards(in[0], in[1]); got != want {
			t.Errorf("%v becomes %v; want %v", in, got, want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		low := math.Pow(10, 560*r.Float64()-300)
		high := low * (1 + math.Pow(10, 45*r.Float64()-15))
		if got := roundRatioOutwards(low, high); !got.valid() || got[0] > low || got[1] < high || got[0] < 0.3999*low || got[1] > 2.5001*high {
			t.Fatalf("%v:%v becomes %v", low, high, got)
		}
	}
}
