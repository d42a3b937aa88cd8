package drawdiscard

import (
	"math"
	"math/rand/v2"
	"testing"
)

// loss is the mean loss of the records, from its definition.
func loss(g *GLM, weights []float32, r Records) float64 {
	sum := 0.0
	for i, label := range r.Labels {
		x := r.Features[i*g.inputs:][:g.inputs]
		z := make([]float64, g.outputs)
		for o := range z {
			z[o] = float64(g.biases(weights)[o])
			for j, v := range x {
				z[o] += float64(g.row(weights, o)[j]) * float64(v)
			}
		}
		y := float64(label)
		switch g.family {
		case Linear:
			sum += (z[0] - y) * (z[0] - y) / 2
		case Logistic:
			sum += math.Log1p(math.Exp(z[0])) - y*z[0]
		case Poisson:
			sum += math.Exp(z[0]) - y*z[0]
		case Multinomial:
			total := 0.0
			for _, v := range z {
				total += math.Exp(v)
			}
			sum += math.Log(total) - z[int(label)]
		}
	}
	return sum / float64(len(r.Labels))
}

// Gradients equal central differences of the loss.
func TestGLM_GradientIsTheSlopeOfTheLoss(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		family  Family
		classes int
		labels  []float32
	}{
		{Linear, 0, []float32{0.3, -1, 2.5}}, {Logistic, 2, []float32{0, 1, 1}},
		{Multinomial, 2, []float32{1, 0, 1}}, {Multinomial, 4, []float32{3, 0, 2}}, {Poisson, 0, []float32{0, 4, 2}},
	} {
		g, err := NewGLM(c.family, 7, c.classes)
		if err != nil {
			t.Fatal(err)
		}
		r := Records{Features: make([]float32, 3*7), Labels: c.labels}
		for i := range r.Features {
			r.Features[i] = random.Float32()
		}
		w := make([]float32, g.Weights())
		for i := range w {
			w[i] = random.Float32() - 0.5
		}
		gradient := make([]float32, len(w))
		if err := g.AverageGradient(gradient, w, r); err != nil {
			t.Fatal(err)
		}
		for i := range w {
			const h = 1.0 / 128
			saved := w[i]
			w[i] = saved + h
			up := loss(g, w, r)
			w[i] = saved - h
			down := loss(g, w, r)
			w[i] = saved
			if slope := (up - down) / (2 * h); math.Abs(slope-float64(gradient[i])) > 2e-4*(1+math.Abs(slope)) {
				t.Errorf("%s, weight %d: gradient %v, slope %v", c.family, i, gradient[i], slope)
			}
		}
	}
}

// With features in [0, 1] the gradients of classifiers lie in the box of a clip bound of 1.
func TestGLM_ClassifierGradientsLieInTheUnitBox(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, family := range []Family{Logistic, Multinomial} {
		g, err := NewGLM(family, 5, 2)
		if err != nil {
			t.Fatal(err)
		}
		w, gradient := make([]float32, g.Weights()), make([]float32, g.Weights())
		for range 200 {
			for i := range w {
				w[i] = 40 * (random.Float32() - 0.5)
			}
			x := []float32{0, 1, random.Float32(), random.Float32(), 1}
			if err := g.AverageGradient(gradient, w, Records{x, []float32{float32(random.IntN(2))}}); err != nil {
				t.Fatal(err)
			}
			for _, v := range gradient {
				if !(v >= -1 && v <= 1) {
					t.Fatalf("%s: gradient %v", family, v)
				}
			}
		}
	}
}

func TestNewGLM_RejectInvalid(t *testing.T) {
	for _, c := range []struct {
		family          Family
		inputs, classes int
	}{
		{Linear, 3, 2}, {Logistic, 3, 3}, {Logistic, 3, 0}, {Multinomial, 3, 1}, {Poisson, 3, 1}, {"tree", 3, 2}, {Linear, 0, 0},
	} {
		if _, err := NewGLM(c.family, c.inputs, c.classes); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
	g, err := NewGLM(Multinomial, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	d := make([]float32, g.Weights())
	for _, r := range []Records{{}, {[]float32{1}, []float32{0}}, {[]float32{1, 1}, []float32{3}}, {[]float32{1, 1}, []float32{-1}}} {
		if err := g.AverageGradient(d, d, r); err == nil {
			t.Errorf("%+v: no error", r)
		}
	}
}

// The loss of Evaluate has the gradient of AverageGradient, and its errors are those of the predictions.
func TestGLM_EvaluateMatchesGradientAndPredictions(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		family  Family
		classes int
		labels  []float32
	}{
		{Linear, 0, []float32{0.3, -1, 2.5, 0}}, {Logistic, 2, []float32{0, 1, 1, 0}}, {Multinomial, 3, []float32{2, 0, 1, 1}}, {Poisson, 0, []float32{0, 4, 2, 1}},
	} {
		g, err := NewGLM(c.family, 3, c.classes)
		if err != nil {
			t.Fatal(err)
		}
		r := Records{Features: make([]float32, 4*3), Labels: c.labels}
		for i := range r.Features {
			r.Features[i] = random.Float32()
		}
		w, gradient := make([]float32, g.Weights()), make([]float32, g.Weights())
		for i := range w {
			w[i] = 2 * (random.Float32() - 0.5)
		}
		if err := g.AverageGradient(gradient, w, r); err != nil {
			t.Fatal(err)
		}
		loss := func(i int, step float32) float64 {
			moved := append([]float32(nil), w...)
			moved[i] += step
			e, err := g.Evaluate(moved, r)
			if err != nil {
				t.Fatal(err)
			}
			return e.Loss
		}
		for i, want := range gradient {
			const step = 1.0 / 256
			if got := (loss(i, step) - loss(i, -step)) / (2 * step); math.Abs(got-float64(want)) > 1e-3 {
				t.Errorf("%s: the loss has the slope %v in weight %d, and the gradient is %v", c.family, got, i, want)
			}
		}
		e, err := g.Evaluate(w, r)
		if err != nil {
			t.Fatal(err)
		}
		outputs := g.Weights() / 4
		means := make([]float32, 4*outputs)
		g.Predict(means, w, r.Features)
		right, squares := 0.0, 0.0
		for i, label := range c.labels {
			of := means[i*outputs:][:outputs]
			switch c.family {
			case Logistic:
				if (of[0] > 0.5) == (label == 1) {
					right++
				}
			case Multinomial:
				best := 0
				for k := range of {
					if of[k] > of[best] {
						best = k
					}
				}
				if best == int(label) {
					right++
				}
			default:
				squares += math.Pow(float64(of[0]-label), 2)
			}
		}
		if math.Abs(e.Accuracy-right/4) > 1e-12 || math.Abs(e.RMSE-math.Sqrt(squares/4)) > 1e-5*(1+e.RMSE) || e.Loss < 0 {
			t.Errorf("%s: %+v, want an accuracy of %v and an RMSE of %v", c.family, e, right/4, math.Sqrt(squares/4))
		}
		if _, err := g.Evaluate(w[1:], r); err == nil {
			t.Errorf("%s: a weight is missing: no error", c.family)
		}
	}
}
