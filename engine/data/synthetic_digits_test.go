package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
)

func TestDigits_DependOnlyOnNumber(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	alone := drawDigits(0, 300)
	runtime.GOMAXPROCS(3)
	if parallel := drawDigits(0, 300); !bytes.Equal(alone.pixels, parallel.pixels) {
		t.Error("three processors draw different pictures from one")
	}
	if later := drawDigits(200, 100); !bytes.Equal(alone.pixels[200*side*side:], later.pixels) {
		t.Error("pictures depend on the first picture of the call")
	}
}

// Measured accuracies refer to these pictures, so they must not change.
func TestDigits_FixedHash(t *testing.T) {
	p := drawDigits(digitsTrain, 1000)
	hash := sha256.Sum256(p.pixels)
	const want = "dc3b03469b115b3ae01b969708a64bdb5b0d55c2f681453b4aadc9bf28a334de"
	if got := hex.EncodeToString(hash[:]); got != want {
		t.Errorf("the first 1,000 test pictures hash to %s; want %s", got, want)
	}
}

// Of 10,000 uniform labels each class has 1,000 with standard deviation 30. The bound is five
// standard deviations, and the pictures are fixed.
func TestDigits_ClassesAreBalanced(t *testing.T) {
	p := drawDigits(0, 10000)
	var count [10]int
	for _, l := range p.labels {
		count[l]++
	}
	for digit, n := range count {
		if !(math.Abs(float64(n)-1000) <= 150) {
			t.Errorf("digit %d occurs %d times in 10,000", digit, n)
		}
	}
}

func TestDigits_Task(t *testing.T) {
	if testing.Short() {
		t.Skip("draws all 45,000 pictures")
	}
	task, err := Open("digits", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if task.Private || task.Train.Len() != digitsTrain || task.Test.Len() != digitsTest || task.Classes != 10 {
		t.Errorf("digits: private %v, %d + %d pictures, %d classes", task.Private, task.Train.Len(), task.Test.Len(), task.Classes)
	}
	if err := checkAll(task.Test); err != nil {
		t.Error(err)
	}
}

// A small network is much better than a linear model, already on a quarter of the digits. Measured with scikit-learn on all
// 40,000: logistic regression 90.0%, three nearest neighbours 95.3%, one hidden
// layer of 128 units 98.7%.
func TestDigits_NetworkBeatsLinearModel(t *testing.T) {
	if testing.Short() {
		t.Skip("long sums of one goroutine")
	}
	train, test := drawDigits(0, 10000), drawDigits(digitsTrain, 2000)
	linear := trainAndTest(t, train, test, 0, 4, .02)
	if linear < .84 || linear > .92 {
		t.Errorf("the accuracy of a linear model is %.1f%%; want 84 to 92", 100*linear)
	}
	t.Logf("linear %.2f%%", 100*linear)
	network := trainAndTest(t, train, test, 32, 6, .03)
	if network < .945 || network < linear+.04 {
		t.Errorf("the accuracy of a small network is %.1f%%, that of a linear model %.1f%%; want at least 94.5 and 4 more", 100*network, 100*linear)
	}
	t.Logf("network %.2f%%", 100*network)
}

// trainAndTest trains a network with one hidden ReLU layer (none if hidden is 0) by stochastic
// gradient descent on single pictures, and returns its test accuracy.
func trainAndTest(t *testing.T, train, test *Pictures, hidden, epochs int, rate float32) float64 {
	const inputs, classes = side * side, 10
	rng := rand.New(rand.NewPCG(7, 7))
	top := inputs
	if hidden > 0 {
		top = hidden
	}
	first := make([]float32, hidden*(inputs+1))
	for i := range first {
		first[i] = float32(rng.NormFloat64() * .05)
	}
	last := make([]float32, classes*(top+1))
	if hidden > 0 {
		for i := range last {
			last[i] = float32(rng.NormFloat64() * .2)
		}
	}
	picture, label := make([]float32, inputs), make([]float32, 1)
	units, back := make([]float32, hidden), make([]float32, hidden)
	var scores [classes]float32
	forward := func(s Set, row int) []float32 {
		if err := s.Read([][]float32{picture, label}, []int{row}); err != nil {
			t.Fatal(err)
		}
		x := picture
		if hidden > 0 {
			for h := range units {
				units[h] = max(affine(first[h*(inputs+1):][:inputs+1], picture), 0)
			}
			x = units
		}
		for c := range scores {
			scores[c] = affine(last[c*(top+1):][:top+1], x)
		}
		return x
	}
	for epoch := range epochs {
		step := rate * (1 - float32(epoch)/float32(epochs))
		for _, row := range rng.Perm(train.Len()) {
			x := forward(train, row)
			softmax(scores[:])
			scores[int(label[0])]--
			clear(back)
			for c, d := range scores {
				w := last[c*(top+1):][:top+1]
				for h := range back {
					if units[h] > 0 {
						back[h] += d * w[h]
					}
				}
				gradientStep(w, x, step*d)
			}
			for h, d := range back {
				if d != 0 {
					gradientStep(first[h*(inputs+1):][:inputs+1], picture, step*d)
				}
			}
		}
	}
	right := 0
	for row := range test.Len() {
		forward(test, row)
		best := 0
		for c := range scores {
			if scores[c] > scores[best] {
				best = c
			}
		}
		if best == int(label[0]) {
			right++
		}
	}
	return float64(right) / float64(test.Len())
}

// affine returns w·x plus the bias, which is the last element of w.
func affine(w, x []float32) float32 {
	sum := w[len(x)]
	for i, v := range x {
		sum += w[i] * v
	}
	return sum
}

func gradientStep(w, x []float32, step float32) {
	w[len(x)] -= step
	for i, v := range x {
		w[i] -= step * v
	}
}

func softmax(scores []float32) {
	top := scores[0]
	for _, s := range scores {
		top = max(top, s)
	}
	var sum float32
	for i, s := range scores {
		scores[i] = float32(math.Exp(float64(s - top)))
		sum += scores[i]
	}
	for i := range scores {
		scores[i] /= sum
	}
}

func BenchmarkDigits(b *testing.B) {
	for b.Loop() {
		Digits()
	}
}
