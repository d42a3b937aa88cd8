package clipping

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/clip"
)

func TestNewClipper_ResolvesGroups(t *testing.T) {
	c := bind(t, []clip.Group{
		{Name: "rest", Parameters: []string{"fc.weight"}, Bound: clip.Constant(1)},
		{Name: "convolutions", Parameters: []string{"conv*bias", "conv*.w*ght"}, Scales: []float64{2, 3}, Bound: clip.Constant(1)},
	}, Float32Accuracy)
	parts := c.Groups()
	if !slices.Equal(parts[0].Members, []Member{{4, 1}}) || !slices.Equal(parts[1].Members, []Member{{1, 2}, {3, 2}, {0, 3}, {2, 3}}) {
		t.Errorf("dealt %+v", parts)
	}
}

func TestNewClipper_RejectsInvalidGroups(t *testing.T) {
	one := clip.Constant(1)
	good := clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.2, Noise: 5}
	quantile := func(change func(*clip.Quantile)) []clip.Group {
		q := good
		change(&q)
		return clip.Flat(q, nil)
	}
	for _, c := range []struct {
		title   string
		groups  []clip.Group
		message string
	}{
		{"no group", nil, `"conv1.weight" is in no group`},
		{"a vector in none", []clip.Group{{Name: "c", Parameters: []string{"conv*"}, Bound: one}}, `"fc.weight" is in no group`},
		{"a vector in two", []clip.Group{{Name: "c", Parameters: []string{"*"}, Bound: one}, {Name: "d", Parameters: []string{"fc*"}, Bound: one}}, `"fc.weight" is in group "c" and also matches "fc*" of group "d"`},
		{"a vector twice in one", []clip.Group{{Name: "c", Parameters: []string{"*", "fc*"}, Bound: one}}, `"fc.weight" is in group`},
		{"an unknown vector", []clip.Group{{Name: "c", Parameters: []string{"*.bias", "conv*weight", "fc.wieght"}, Bound: one}}, `most similar name is "fc.weight"`},
		{"no vectors", []clip.Group{{Name: "c", Bound: one}}, "has no parameters"},
		{"no name", []clip.Group{{Parameters: []string{"*"}, Bound: one}}, "no name"},
		{"one name twice", []clip.Group{{Name: "c", Parameters: []string{"conv*"}, Bound: one}, {Name: "c", Parameters: []string{"fc*"}, Bound: one}}, "two groups"},
		{"no bound", []clip.Group{{Name: "c", Parameters: []string{"*"}}}, "no bound"},
		{"a nil schedule", clip.Flat(clip.Schedule(nil), nil), "no bound"},
		{"a share of nothing", clip.PerParameter(names, nil, nil), "no bound"},
		{"a share of an adaptive bound", clip.PerParameter(names, good, nil), "give each group its own"},
		{"an adaptive bound by reference", clip.Flat(&good, nil), "by value"},
		{"too few scales", []clip.Group{{Name: "c", Parameters: []string{"conv*", "fc*"}, Scales: []float64{1}, Bound: one}}, "1 scales for 2"},
		{"scale 0", []clip.Group{{Name: "c", Parameters: []string{"*"}, Scales: []float64{0}, Bound: one}}, "scale 0"},
		{"scale 1e19", []clip.Group{{Name: "c", Parameters: []string{"*"}, Scales: []float64{1e19}, Bound: one}}, "scale 1e+19"},
		{"scale NaN", []clip.Group{{Name: "c", Parameters: []string{"*"}, Scales: []float64{math.NaN()}, Bound: one}}, "scale NaN"},
		{"gamma 0", clip.Flat(one, clip.Normalized{}), "stability constant is 0"},
		{"gamma infinite", clip.Flat(one, clip.Normalized{Gamma: math.Inf(1)}), "stability constant is +Inf"},
		{"gamma NaN", clip.Flat(one, clip.Normalized{Gamma: math.NaN()}), "stability constant is NaN"},
		{"initial 0", quantile(func(q *clip.Quantile) { q.Initial = 0 }), "Bound 0"},
		{"initial infinite", quantile(func(q *clip.Quantile) { q.Initial = math.Inf(1) }), "Bound +Inf"},
		{"target 0", quantile(func(q *clip.Quantile) { q.Target = 0 }), "target quantile is 0"},
		{"target 1", quantile(func(q *clip.Quantile) { q.Target = 1 }), "target quantile is 1"},
		{"target NaN", quantile(func(q *clip.Quantile) { q.Target = math.NaN() }), "target quantile is NaN"},
		{"rate 0", quantile(func(q *clip.Quantile) { q.Rate = 0 }), "adaptation rate is 0"},
		{"rate infinite", quantile(func(q *clip.Quantile) { q.Rate = math.Inf(1) }), "adaptation rate is +Inf"},
		{"noise infinite", quantile(func(q *clip.Quantile) { q.Noise = math.Inf(1) }), "noise of the count is +Inf"},
		{"noise 0", quantile(func(q *clip.Quantile) { q.Noise = 0 }), "noise of the count is 0"},
	} {
		_, err := NewClipper(names, c.groups, Float32Accuracy)
		if err == nil || !strings.Contains(err.Error(), c.message) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", c.title, err, c.message)
		}
	}
	if _, err := NewClipper(nil, nil, Float32Accuracy); err == nil {
		t.Error("no vectors and no groups: no error")
	}
	for _, a := range []Accuracy{{-1, 0, 0}, {0.5, 0, 0}, {math.NaN(), 0, 0}, {0, -1, 0}, {0, 2, 0}, {0, math.NaN(), 0}, {0, 0, -1}, {0, 0, 1}, {0, 0, math.NaN()}} {
		if _, err := NewClipper(names, clip.Flat(one, nil), a); err == nil {
			t.Errorf("%+v was accepted", a)
		}
	}
}

func TestBeginLot_RejectsInvalidBounds(t *testing.T) {
	for _, bound := range []float64{0, -1, math.NaN(), math.Inf(-1), 1e-30, 1e30} {
		if err := bind(t, clip.Flat(clip.Constant(bound), nil), Float32Accuracy).BeginLot(0); err == nil {
			t.Errorf("bound %v was accepted", bound)
		}
	}
	if err := bind(t, clip.Flat(clip.Constant(math.Inf(1)), clip.Normalized{Gamma: 1}), Float32Accuracy).BeginLot(0); err == nil {
		t.Error("normalising to an infinite bound was accepted")
	}
}

func TestComputeFactors_RejectsInvalidShapes(t *testing.T) {
	c := bind(t, clip.Flat(clip.Constant(1), nil), Float32Accuracy)
	if err := c.BeginLot(0); err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct{ groups, factors, vectors, norms, records int }{
		{2, 4, 5, 4, 4}, {0, 4, 5, 4, 4}, {1, 3, 5, 4, 4}, {1, 4, 4, 4, 4}, {1, 4, 5, 3, 4}, {1, 4, 5, 4, -1},
	} {
		if err := c.ComputeFactors(matrix(s.groups, s.factors), matrix(s.vectors, s.norms), s.records); err == nil {
			t.Errorf("%+v was accepted", s)
		}
	}
}

func TestMatches_Patterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"a*", "a", true}, {"a*a", "a", false}, {"a*a", "aa", true},
		{"*", "", true}, {"**", "x", true}, {"a*b*c", "a1b2c", true}, {"a*b*c", "acb", false}, {"a*b*c", "ac", false},
		{"*bias", "conv.bias", true}, {"*b*b", "ab", false}, {"a*bc", "abcbc", true}, {"block[0].*", "block[0].w", true},
	} {
		if clip.Matches(c.pattern, c.name) != c.want {
			t.Errorf("%q against %q: want %v", c.pattern, c.name, c.want)
		}
	}
}
