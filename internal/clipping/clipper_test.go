package clipping

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/clip"
)

// exact is the accuracy of norms summed in float64 and rounded to float32.
var exact = Accuracy{Relative: 0x1p-23, Absolute: 0x1p-126}

// strategy is a way to clip the parameters in names.
type strategy struct {
	title  string
	groups []clip.Group
}

var names = []string{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc.weight"}

func strategies(bound float64) []strategy {
	return []strategy{
		{"flat", clip.Flat(clip.Constant(bound), nil)},
		{"per vector", clip.PerParameter(names, clip.Constant(bound), nil)},
		{"by pattern", []clip.Group{
			{Name: "convolutions", Parameters: []string{"conv*"}, Bound: clip.Constant(bound)},
			{Name: "rest", Parameters: []string{"fc.*"}, Bound: clip.Constant(3 * bound)},
		}},
		{"joint", []clip.Group{{
			Name: "all", Parameters: []string{"*.weight", "*.bias"}, Scales: []float64{7.3, 0.013}, Bound: clip.Constant(bound),
		}}},
		{"normalized", clip.Flat(clip.Constant(bound), clip.Normalized{Gamma: 0.01})},
		{"normalized, nearly unstable", clip.Flat(clip.Constant(bound), clip.Normalized{Gamma: 1e-40})},
		{"adaptive", clip.Flat(clip.Quantile{Initial: bound, Target: 0.5, Rate: 0.2, Noise: 5}, nil)},
		{"schedule", clip.Flat(clip.Schedule(func(lot int) float64 { return bound / float64(1+lot) }), nil)},
		{"a rule that lies", clip.Flat(clip.Constant(bound), rule(func(_, _ float64) float64 { return math.Inf(1) }))},
	}
}

type rule func(norm, bound float64) float64

func (r rule) Factor(norm, bound float64) float64 { return r(norm, bound) }

// squares are the squared norms of a record, summed in float64.
func squares(record [][]float32) []float32 {
	sq := make([]float32, len(record))
	for v, x := range record {
		sum := 0.0
		for _, e := range x {
			sum += float64(e) * float64(e)
		}
		sq[v] = float32(sum)
	}
	return sq
}

// moved is the scaled norm of the contribution of a record to a group, in float64.
func moved(c float32, record [][]float32, members []Member) float64 {
	sum := 0.0
	for _, m := range members {
		for _, e := range record[m.Parameter] {
			x := float64(c) * float64(e) / m.Scale
			sum += x * x
		}
	}
	return math.Sqrt(sum)
}

func bind(t *testing.T, groups []clip.Group, accuracy Accuracy) *Clipper {
	t.Helper()
	c, err := NewClipper(names, groups, accuracy)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func matrix(rows, columns int) [][]float32 {
	m := make([][]float32, rows)
	for i := range m {
		m[i] = make([]float32, columns)
	}
	return m
}

// adversarial are records intended to move a sum by more than the sensitivity.
func adversarial(bound float64) [][][]float32 {
	b := float32(bound)
	up := math.Nextafter32(b, math.MaxFloat32)
	down := math.Nextafter32(b, 0)
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	tiny := float32(math.SmallestNonzeroFloat32)
	of := func(xs ...float32) [][]float32 {
		r := make([][]float32, len(names))
		for v := range r {
			r[v] = []float32{xs[v%len(xs)]}
		}
		return r
	}
	return [][][]float32{
		of(0), of(float32(math.Copysign(0, -1))),
		of(b, 0, 0, 0, 0), of(up, 0, 0, 0, 0), of(down, 0, 0, 0, 0), of(0, 0, 0, 0, b), of(0, up, 0, 0, 0),
		of(b), of(up), of(-b), of(3*b, 0, 0, 0, 0), of(b*1.4142135, b*1.4142135, 0, 0, 0),
		of(1e19), of(-1e19, 1e-19), of(1e19, 0, 0, 0, 0), of(1.8e19, 1.8e19, 1.8e19, 1.8e19, 1.8e19),
		of(math.MaxFloat32), of(-math.MaxFloat32, 1),
		of(1e-19), of(1e-20), of(1e-23), of(1e-30), of(0x1p-126), of(tiny), of(tiny, b), of(1e-23, up, 0, 0, 0),
		of(inf), of(-inf), of(nan), of(nan, 0, 0, 0, 0), of(0, 0, 0, 0, inf), of(b, nan, inf, -inf, 0), of(inf, -inf),
	}
}

func TestClipper_RecordWithinSensitivity(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, bound := range []float64{1e-6, 0.1, 1, 1.0000001, 3.7, 1e5} {
		records := adversarial(bound)
		for range 3000 {
			r := make([][]float32, len(names))
			size := math.Exp(random.NormFloat64() * float64(random.IntN(40)))
			for v := range r {
				r[v] = make([]float32, 1+random.IntN(40))
				mine := size * math.Exp(random.NormFloat64()*3)
				if random.IntN(2) == 0 { // near the bound
					mine = bound / math.Sqrt(float64(len(r[v])))
				}
				for i := range r[v] {
					r[v][i] = float32(mine * random.NormFloat64())
				}
			}
			records = append(records, r)
		}
		for _, s := range strategies(bound) {
			c := bind(t, s.groups, exact)
			for lot := range 2 {
				if err := c.BeginLot(lot); err != nil {
					t.Fatal(err)
				}
				check(t, s.title, c, records)
			}
		}
	}
}

func check(t *testing.T, title string, c *Clipper, records [][][]float32) {
	t.Helper()
	sq := matrix(len(names), len(records))
	for r, record := range records {
		for v, x := range squares(record) {
			sq[v][r] = x
		}
	}
	factors := matrix(len(c.Groups()), len(records))
	if err := c.ComputeFactors(factors, sq, len(records)); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for r, record := range records {
		finite := true
		for v := range sq {
			finite = finite && sq[v][r] <= math.MaxFloat32
		}
		if !finite {
			refused++
		}
		for g, part := range c.Groups() {
			f := factors[g][r]
			if !(f >= 0 && f <= math.MaxFloat32) {
				t.Fatalf("%s: factor %v", title, f)
			}
			if !finite {
				if f != 0 {
					t.Fatalf("%s: a record with norms that are not finite got factor %v", title, f)
				}
				continue
			}
			if m, s := moved(f, record, part.Members), c.Sensitivities()[g]; !(m <= s) {
				t.Fatalf("%s: record %d (factor %v) moves group %s by %v, more than %v, by %v of it", title, r, f, part.Name, m, s, m/s-1)
			}
		}
	}
	if c.ExcludedRecords() != refused {
		t.Fatalf("%s: %d records refused, want %d", title, c.ExcludedRecords(), refused)
	}
}

// Squared norms that are too small by as much as Accuracy allows do not violate the bound, and
// the margin covers the rounding of c·u.
func TestClipper_AccountsForAccuracy(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	truths := []float64{1e-8, 1e-3, 0.5, 0.999, 1, 1.000001, 1.5, 4, 1e6}
	for range 20000 {
		truths = append(truths, math.Exp(8*random.NormFloat64()))
	}
	const small, large = 1e-3, 50
	joint := []clip.Group{{Name: "all", Parameters: []string{"w", "v"}, Scales: []float64{small, large}, Bound: clip.Constant(1)}}
	factors, sq := matrix(1, 1), matrix(2, 1)
	for _, accuracy := range []Accuracy{{}, Float32Accuracy, {Relative: 0.1, Absolute: 1e-6}, {Relative: 0.4999, Absolute: 1}} {
		c, err := NewClipper([]string{"w", "v"}, joint, accuracy)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.BeginLot(0); err != nil {
			t.Fatal(err)
		}
		for i, truth := range truths {
			var all float64
			for v, scale := range []float64{small, large} {
				square := truth
				if v != i%2 {
					square = 0
				}
				square *= scale * scale
				lowest := float32(max(0, square*(1-accuracy.Relative)-accuracy.Absolute))
				square = (float64(lowest) + accuracy.Absolute) / (1 - accuracy.Relative) // as large as Accuracy allows
				sq[v][0] = lowest
				all += square / (scale * scale)
			}
			if err := c.ComputeFactors(factors, sq, 1); err != nil {
				t.Fatal(err)
			}
			if m := float64(factors[0][0]) * math.Sqrt(all) * (1 + 0x1p-22); m > 1 {
				t.Errorf("%+v: a record of squared norm %v moves the sum by %v", accuracy, all, m)
			}
		}
	}
}

// For any proposal of a rule the factor is not NaN, not negative and not subnormal.
func TestClipFactor_WithinBound(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct{ proposed, upper, bound, want float64 }{
		{nan, 1, 1, 0}, {-1, 1, 1, 0}, {-inf, 1, 1, 0}, {0, 1, 1, 0}, {0.5, 1, 1, 0.5},
		{inf, 2, 1, float64(float32(0.5 * roundingMargin))}, {inf, 0, 1, math.MaxFloat32}, {1e39, 0, inf, math.MaxFloat32},
		{0x1.8p-148, 1, 1, 0}, {0x1.fffffffp-127, 1, 1, 0}, {0x1p-126, 1, 1, 0x1p-126}, {1, 0x1p130, 1, 0},
	} {
		if got := clipFactor(rule(func(_, _ float64) float64 { return c.proposed }), c.upper, c.bound, roundingMargin); float64(got) != c.want {
			t.Errorf("%+v: factor %v", c, got)
		}
	}
}

// The second of four records is excluded and two rows of padding follow. They get the factor 0,
// also if the slice contained other values.
func TestComputeFactors_MatchesFormula(t *testing.T) {
	const bad = -4 // even where the sum is positive
	sq := [][]float32{{9, bad, 0.09, 0}, {16, 20, 0.16, 0}}
	for _, c := range []struct {
		title  string
		groups []clip.Group
		want   [][]float64
	}{
		{"flat: norms 5, 0.5, 0", clip.Flat(clip.Constant(1), nil), [][]float64{{0.2, 0, 1, 1}}},
		{"each vector by 1/√2", clip.PerParameter([]string{"a", "b"}, clip.Constant(1), nil),
			[][]float64{{math.Sqrt2 / 6, 0, 1, 1}, {math.Sqrt2 / 8, 0, 1, 1}}},
		{"scaled norms √(1+4), √0.05, 0", []clip.Group{{Name: "all", Parameters: []string{"a", "b"}, Scales: []float64{3, 2}, Bound: clip.Constant(0.2)}},
			[][]float64{{0.2 / math.Sqrt(5), 0, 0.2 / math.Sqrt(0.05), 1}}},
		{"normalized", clip.Flat(clip.Constant(2), clip.Normalized{Gamma: 0.5}), [][]float64{{2 / 5.5, 0, 2, 4}}},
		{"no bound", clip.Flat(clip.Constant(math.Inf(1)), nil), [][]float64{{1, 0, 1, 1}}},
	} {
		k, err := NewClipper([]string{"a", "b"}, c.groups, Accuracy{})
		if err != nil {
			t.Fatal(err)
		}
		if err := k.BeginLot(0); err != nil {
			t.Fatal(err)
		}
		factors := matrix(len(c.want), 6)
		for g := range factors {
			copy(factors[g], []float32{7, 7, 7, 7, 7, 7})
		}
		if err := k.ComputeFactors(factors, sq, 4); err != nil {
			t.Fatal(err)
		}
		for g, row := range c.want {
			for r, want := range append(row, 0, 0) {
				if got := float64(factors[g][r]); !(math.Abs(got-want) <= 2e-6*want) {
					t.Errorf("%s: factor of group %d, record %d is %v, want %v", c.title, g, r, got, want)
				}
			}
		}
	}
}

// A record's factor has the same bits for any other records in the microbatch.
func TestComputeFactors_IndependentOfMicrobatch(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const n = 300
	sq := matrix(len(names), n)
	for v := range sq {
		for r := range sq[v] {
			sq[v][r] = float32(random.ExpFloat64())
		}
	}
	for _, s := range strategies(1) {
		c := bind(t, s.groups, Float32Accuracy)
		if err := c.BeginLot(0); err != nil {
			t.Fatal(err)
		}
		whole, alone := matrix(len(s.groups), n), matrix(len(s.groups), 1)
		if err := c.ComputeFactors(whole, sq, n); err != nil {
			t.Fatal(err)
		}
		one := matrix(len(names), 1)
		for r := range n {
			for v := range sq {
				one[v][0] = sq[v][r]
			}
			if err := c.ComputeFactors(alone, one, 1); err != nil {
				t.Fatal(err)
			}
			for g := range alone {
				if alone[g][0] != whole[g][r] {
					t.Fatalf("%s: record %d has factor %v alone and %v in company", s.title, r, alone[g][0], whole[g][r])
				}
			}
		}
	}
}

func TestComputeFactors_DoesNotAllocate(t *testing.T) {
	sq := matrix(len(names), 300)
	for _, s := range strategies(1) {
		c := bind(t, s.groups, Float32Accuracy)
		factors := matrix(len(s.groups), 300)
		lot := 0
		state := make([]float64, 0, len(names))
		allocs := testing.AllocsPerRun(20, func() {
			lot++
			if c.BeginLot(lot) != nil || c.ComputeFactors(factors, sq, 290) != nil {
				t.Fatal("failed")
			}
			c.State(state)
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations a lot", s.title, allocs)
		}
	}
}

func TestBeginLot_ChecksSchedule(t *testing.T) {
	c := bind(t, clip.Flat(clip.Schedule(func(lot int) float64 { return 1 - float64(lot)/2 }), nil), Float32Accuracy)
	for lot, want := range []float64{1, 0.5} {
		if err := c.BeginLot(lot); err != nil || c.Sensitivities()[0] != want {
			t.Fatalf("lot %d: sensitivity %v (%v), want %v", lot, c.Sensitivities()[0], err, want)
		}
	}
	if err := c.BeginLot(2); err == nil {
		t.Fatal("a bound of 0 was accepted")
	}
	if err := c.ComputeFactors(matrix(1, 1), matrix(len(names), 1), 1); err == nil {
		t.Fatal("factors were given without a bound in force")
	}
}

func BenchmarkComputeFactors(b *testing.B) {
	c, err := NewClipper(names, clip.Flat(clip.Constant(1), nil), Float32Accuracy)
	if err != nil {
		b.Fatal(err)
	}
	if err := c.BeginLot(0); err != nil {
		b.Fatal(err)
	}
	const n = 256
	sq, factors := matrix(len(names), n), matrix(1, n)
	for b.Loop() {
		if err := c.ComputeFactors(factors, sq, n); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
}

// One record alone gets the factors, the counts and the exclusions that it gets in a microbatch.
func TestComputeRecordFactors_MatchMicrobatch(t *testing.T) {
	for _, s := range strategies(0.7) {
		rows, alone := bind(t, s.groups, Float32Accuracy), bind(t, s.groups, Float32Accuracy)
		for _, c := range []*Clipper{rows, alone} {
			if err := c.BeginLot(0); err != nil {
				t.Fatal(err)
			}
		}
		factors, got := matrix(len(rows.Groups()), 1), make([]float32, len(rows.Groups()))
		for i, record := range adversarial(0.7) {
			sq, squared := squares(record), make([]float64, len(got))
			for g, group := range rows.Groups() {
				for _, m := range group.Members {
					squared[g] += 1 / (m.Scale * m.Scale) * float64(sq[m.Parameter])
				}
			}
			column := make([][]float32, len(sq))
			finite := true
			for v := range sq {
				column[v] = sq[v : v+1]
				finite = finite && sq[v] <= math.MaxFloat32
			}
			if !finite { // a sum of float64 squares can be finite where a float32 square is not
				squared[0] = math.NaN()
			}
			if err := rows.ComputeFactors(factors, column, 1); err != nil {
				t.Fatal(err)
			}
			if err := alone.ComputeRecordFactors(got, squared); err != nil {
				t.Fatal(err)
			}
			for g := range got {
				if got[g] != factors[g][0] || alone.QuantileCount(g) != rows.QuantileCount(g) {
					t.Fatalf("%s, record %d, group %d: factor %v and count %v, want %v and %v", s.title, i, g, got[g], alone.QuantileCount(g), factors[g][0], rows.QuantileCount(g))
				}
			}
		}
		if alone.ExcludedRecords() != rows.ExcludedRecords() {
			t.Fatalf("%s: %d records excluded, want %d", s.title, alone.ExcludedRecords(), rows.ExcludedRecords())
		}
	}
}

func TestComputeRecordFactors_ChecksArguments(t *testing.T) {
	c := bind(t, clip.Flat(clip.Constant(1), nil), exact)
	if c.ComputeRecordFactors(make([]float32, 1), make([]float64, 1)) == nil {
		t.Error("factors before the first lot")
	}
	c.BeginLot(0)
	for _, squared := range []float64{math.NaN(), math.Inf(1), -1} {
		factors := []float32{1}
		if err := c.ComputeRecordFactors(factors, []float64{squared}); err != nil || factors[0] != 0 {
			t.Errorf("squared norm %v: factor %v, %v", squared, factors[0], err)
		}
	}
	if c.ExcludedRecords() != 3 || c.ComputeRecordFactors(make([]float32, 2), make([]float64, 1)) == nil {
		t.Error("wrong exclusions or shapes accepted")
	}
}
