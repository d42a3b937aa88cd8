package drawdiscard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

func buildModel(t *testing.T, s Spec) Model {
	t.Helper()
	m, err := s.Build(1)
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := m.(*Network); ok {
		t.Cleanup(func() { n.Close() })
	}
	return m
}

// A network of one dense layer has the gradient of the multinomial model: its weights are the
// transposed ones. 40 records need three batches, the last one padded.
func TestNetwork_GradientEqualsMultinomialModel(t *testing.T) {
	const inputs, classes, records = 6, 3, 40
	network := buildModel(t, Spec{Model: "mlp:4", Inputs: Shape{inputs}, Classes: classes})
	if got, want := network.Weights(), inputs*4+4+4*classes+classes; got != want {
		t.Fatalf("%d weights, want %d", got, want)
	}
	dense := buildModel(t, Spec{Model: "abadi-mlp", Inputs: Shape{2}, Classes: 2})
	if dense.Weights() != 2*1000+1000+1000*2+2 {
		t.Errorf("abadi-mlp has %d weights", dense.Weights())
	}

	r := rand.New(rand.NewPCG(5, 6))
	data := Records{Features: make([]float32, records*inputs), Labels: make([]float32, records)}
	for i := range data.Features {
		data.Features[i] = r.Float32()
	}
	for i := range data.Labels {
		data.Labels[i] = float32(r.IntN(classes))
	}
	// The averages of the first and the last half have the average of all as their mean.
	w := network.Initial()
	for i := range w {
		w[i] += 0.1 * float32(r.NormFloat64())
	}
	all, half, sum := make([]float32, len(w)), make([]float32, len(w)), make([]float64, len(w))
	for part := range 2 {
		rows := records / 2
		if err := network.AverageGradient(half, w, Records{data.Features[part*rows*inputs:][:rows*inputs], data.Labels[part*rows:][:rows]}); err != nil {
			t.Fatal(err)
		}
		for i, v := range half {
			sum[i] += float64(v) / 2
		}
	}
	if err := network.AverageGradient(all, w, data); err != nil {
		t.Fatal(err)
	}
	largest := 0.0
	for i, v := range all {
		largest = math.Max(largest, math.Abs(float64(v)))
		if math.Abs(float64(v)-sum[i]) > 1e-6 {
			t.Fatalf("weight %d: %v and %v", i, v, sum[i])
		}
	}
	if largest < 1e-3 {
		t.Error("the gradient is 0")
	}

	glm, err := NewGLM(Multinomial, inputs, classes)
	if err != nil {
		t.Fatal(err)
	}
	single := singleLayer(t, inputs, classes)
	flat, turned := make([]float32, glm.Weights()), make([]float32, glm.Weights())
	for i := range flat {
		flat[i] = float32(r.NormFloat64())
	}
	turn(turned, flat, inputs, classes)
	want, got, back := make([]float32, len(flat)), make([]float32, len(flat)), make([]float32, len(flat))
	if err := glm.AverageGradient(want, flat, data); err != nil {
		t.Fatal(err)
	}
	if err := single.AverageGradient(got, turned, data); err != nil {
		t.Fatal(err)
	}
	turn(back, want, inputs, classes)
	for i := range got {
		if math.Abs(float64(got[i]-back[i])) > 1e-6 {
			t.Fatalf("weight %d: network %v, model %v", i, got[i], back[i])
		}
	}
}

// singleLayer is the network of one dense layer, which Spec does not reach by the name logistic.
func singleLayer(t *testing.T, inputs, classes int) *Network {
	t.Helper()
	build, err := parseNetwork(Spec{Model: "logistic", Inputs: Shape{inputs}, Classes: classes})
	if err != nil {
		t.Fatal(err)
	}
	n, err := NewNetwork(build, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// turn transposes the matrix of [classes, inputs] weights and copies the intercepts.
func turn(dst, src []float32, inputs, classes int) {
	for i := range inputs {
		for c := range classes {
			dst[i*classes+c] = src[c*inputs+i]
		}
	}
	copy(dst[inputs*classes:], src[inputs*classes:])
}

// Networks that read pictures, indices and targets are built from their description.
func TestSpec_BuildsNetworks(t *testing.T) {
	for _, c := range []struct {
		spec     Spec
		features []float32
		label    float32
	}{
		{Spec{Model: "digits-cnn", Inputs: Shape{1, 28, 28}, Classes: 10}, make([]float32, 784), 3},
		{Spec{Model: "embbag:4", Inputs: Shape{5}, Classes: 2, Vocabulary: 9}, []float32{1, 2, 3, 8, 0}, 1},
		{Spec{Model: "mlp:8,dropout=0.5", Inputs: Shape{3}, Classes: 2}, []float32{0.1, 0.5, 1}, 1},
		{Spec{Model: "mlp:8", Inputs: Shape{3}}, []float32{0.1, 0.5, 1}, -0.5},
	} {
		m := buildModel(t, c.spec)
		g := make([]float32, m.Weights())
		if err := m.AverageGradient(g, m.Initial(), Records{c.features, []float32{c.label}}); err != nil {
			t.Fatalf("%+v: %v", c.spec, err)
		}
		size := 0
		for _, s := range m.Tensors() {
			n := 1
			for _, d := range s.Shape {
				n *= d
			}
			size += n
		}
		if size != m.Weights() {
			t.Errorf("%+v: tensors of %d values for %d weights", c.spec, size, m.Weights())
		}
		sum := 0.0
		for _, v := range g {
			sum += math.Abs(float64(v))
		}
		if !(sum > 0) || math.IsInf(sum, 0) {
			t.Errorf("%+v: gradient of l1 norm %v", c.spec, sum)
		}
	}
	for _, s := range []Spec{
		{Model: "tree", Inputs: Shape{3}, Classes: 2}, {Model: "mlp", Classes: 2}, {Model: "logistic", Inputs: Shape{2}, Classes: 3},
		{Model: "digits-cnn", Inputs: Shape{10}, Classes: 2}, {Model: "logistic", Inputs: Shape{3}, Classes: 2, Vocabulary: 4},
	} {
		if _, err := s.Build(1); err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
}

func TestParseShape(t *testing.T) {
	for _, text := range []string{"784", "1x28x28"} {
		if s, err := ParseShape(text); err != nil || s.String() != text || s.Size() != 784 {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "x", "3x", "1e9", "99999999999999999999", "65536x65536"} {
		if s, err := ParseShape(text); err == nil {
			t.Errorf("%s: %v", text, s)
		}
	}
}

// The weights of a model are known before it is built: names, shapes and order are those of the built
// one.
func TestSpec_TensorsAreThoseOfTheBuiltModel(t *testing.T) {
	for _, s := range []Spec{
		{Model: "logistic", Inputs: Shape{3}, Classes: 2}, {Model: "multinomial", Inputs: Shape{3}, Classes: 4}, {Model: "poisson", Inputs: Shape{2, 3}},
		{Model: "mlp:5,4", Inputs: Shape{3}, Classes: 2}, {Model: "mlp:5", Inputs: Shape{3}}, {Model: "digits-cnn", Inputs: Shape{1, 28, 28}, Classes: 10},
		{Model: "lstm:3", Inputs: Shape{4}, Vocabulary: 5, Classes: 2}, {Model: "transformer", Inputs: Shape{4}, Vocabulary: 5, Classes: 2},
	} {
		got, err := s.Tensors()
		if err != nil {
			t.Fatal(s, err)
		}
		m := buildModel(t, s)
		if want := m.Tensors(); fmt.Sprint(got) != fmt.Sprint(want) || CountWeights(got, m.Weights()) != m.Weights() || CountWeights(got, m.Weights()-1) != m.Weights() {
			t.Errorf("%s: %v, want %v", s.Model, got, want)
		}
	}
}

// A description of a stranger takes little memory before its weights have arrived: neither large layers
// nor large outputs of layers are allocated.
func TestSpec_CountsBeforeItBuilds(t *testing.T) {
	allocated := func(f func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	for _, s := range []Spec{
		{Model: "mlp:30000,30000", Inputs: Shape{3}, Classes: 2}, {Model: "multinomial", Inputs: Shape{1 << 20}, Classes: 1 << 20},
		{Model: "mlp:65536,65536,65536", Inputs: Shape{3}, Classes: 2}, {Model: "embbag:60000", Inputs: Shape{3}, Vocabulary: 1 << 26, Classes: 2},
	} {
		if bytes := allocated(func() {
			if tensors, err := s.Tensors(); err == nil && CountWeights(tensors, 3) != 4 {
				t.Errorf("%s: %v", s.Model, tensors)
			}
		}); bytes > 10<<20 {
			t.Errorf("%s: counting took %d bytes", s.Model, bytes)
		}
	}
	attention := Spec{Model: "transformer", Inputs: Shape{4096}, Vocabulary: 4, Classes: 2}
	if bytes := allocated(func() {
		if _, err := attention.BuildWithin(1, 1<<30); err == nil || !strings.Contains(err.Error(), "GB") {
			t.Errorf("attention among 4,096 steps: %v", err)
		}
	}); bytes > 100<<20 {
		t.Errorf("a model that is refused took %d bytes", bytes)
	}
	for _, s := range []Spec{
		{Model: "logistic", Inputs: Shape{-1, -2}, Classes: 2}, {Model: "mlp:4", Inputs: Shape{-1, -2}, Classes: 2}, {Model: "logistic", Classes: 2}, {Model: "multinomial", Inputs: Shape{3}, Classes: 1 << 60},
		{Model: "mlp:4", Inputs: Shape{3}, Classes: -2}, {Model: "embbag", Inputs: Shape{3}, Vocabulary: 1 << 60, Classes: 2}, {Model: "mlp:" + strings.Repeat("1,", 1000) + "1", Inputs: Shape{3}, Classes: 2},
	} {
		if _, err := s.Tensors(); err == nil {
			t.Errorf("%.20s, inputs %v, %d classes: no error", s.Model, s.Inputs, s.Classes)
		}
		if m, err := s.Build(1); err == nil {
			t.Errorf("%.20s, inputs %v, %d classes: built %v", s.Model, s.Inputs, s.Classes, m)
		}
	}
}
