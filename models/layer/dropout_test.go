package layer

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
)

// Each layer has its own masks. The remaining elements are scaled. A rate of zero adds no
// operation to the network.
func TestDropout_MasksOfTwoLayersDiffer(t *testing.T) {
	const size = 200
	n := NewBuilder(2, 7)
	x := n.Input("x", size)
	a, b := Dropout(n, x, 0.25), Dropout(n, x, 0.25)
	if Dropout(n, x, 0) != x {
		t.Error("a rate of zero adds an operation")
	}
	prediction := Add(n, a, b)
	n.SetLoss(SquaredError(n, prediction, n.Input("target", size)), prediction)
	net, err := n.Network()
	if err != nil {
		t.Fatal(err)
	}
	if len(net.Inputs) != 2 || net.MaskSeed == nil {
		t.Fatalf("%d inputs, mask seed %v", len(net.Inputs), net.MaskSeed)
	}
	ones := make([]float32, 2*size)
	for i := range ones {
		ones[i] = 1
	}
	maskSeed := make([]float32, 2*op.MaskSeedWidth)
	op.WriteMaskSeed(maskSeed, 5, 1)
	op.WriteMaskSeed(maskSeed[op.MaskSeedWidth:], 6, 1)
	got := evaluate(t, append(net.Inputs, net.MaskSeed), [][]float32{ones, ones, maskSeed}, a, b)
	for _, y := range got {
		dropped := 0
		for i, v := range y {
			if v == 0 {
				dropped++
			} else if !(math.Abs(float64(v)-4.0/3) <= 1e-6) {
				t.Fatalf("element %d is %v and not dropped", i, v)
			}
		}
		// Binomial(400, 1/4): fewer than 50 or more than 150 with probability 1e-8.
		if dropped < 50 || dropped > 150 {
			t.Errorf("%d of 400 elements are dropped", dropped)
		}
	}
	same := 0
	for i := range got[0] {
		if got[0][i] == got[1][i] {
			same++
		}
	}
	// Two masks are equal at an element with probability 5/8.
	if same > 325 || same < 175 {
		t.Errorf("two layers agree on %d of 400 elements", same)
	}
}

func TestDropout_MasksDependOnSeed(t *testing.T) {
	masked := func(seed uint64) []float32 {
		b := NewBuilder(1, seed)
		y := Dropout(b, b.Input("x", 100), 0.5)
		b.SetLoss(SquaredError(b, y, b.Input("target", 100)), y)
		net, err := b.Network()
		if err != nil {
			t.Fatal(err)
		}
		ones := make([]float32, 100)
		for i := range ones {
			ones[i] = 1
		}
		maskSeed := make([]float32, op.MaskSeedWidth)
		op.WriteMaskSeed(maskSeed, 5, 1)
		return evaluate(t, append(net.Inputs, net.MaskSeed), [][]float32{ones, ones, maskSeed}, y)[0]
	}
	if slices.Equal(masked(1), masked(2)) {
		t.Error("two seeds draw the same mask")
	}
	if !slices.Equal(masked(1), masked(1)) {
		t.Error("one seed draws two masks")
	}
}

func TestDropout_InvalidRates(t *testing.T) {
	for _, rate := range []float64{-0.1, 1, math.NaN()} {
		b := NewBuilder(2, 1)
		Dropout(b, b.Input("x", 3), rate)
		if _, err := b.Network(); err == nil || !strings.Contains(err.Error(), "less than 1") {
			t.Errorf("rate %v: %v", rate, err)
		}
	}
}
