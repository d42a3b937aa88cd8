package layer

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"
)

func TestRecurrentLayers_ParameterNames(t *testing.T) {
	b := NewBuilder(2, 1)
	x := b.Input("x", 5, 3)
	x = LSTM(b, x, "lstm", 4, RecurrentOptions{Layers: 2, Bidirectional: true})
	if !x.Shape().Eq(tensor.Shape{2, 5, 8}) {
		t.Errorf("hidden states %v", x.Shape())
	}
	y := MeanOverTime(b, GRU(b, x, "gru", 2, RecurrentOptions{}))
	b.SetLoss(SquaredError(b, y, b.Input("target", 2)), y)
	net, err := b.Network()
	if err != nil {
		t.Fatal(err)
	}
	want := "lstm.0.input.weight[3 16] lstm.0.input.bias[16] lstm.0.hidden.weight[4 16]" +
		" lstm.0.reverse.input.weight[3 16] lstm.0.reverse.input.bias[16] lstm.0.reverse.hidden.weight[4 16]" +
		" lstm.1.input.weight[8 16] lstm.1.input.bias[16] lstm.1.hidden.weight[4 16]" +
		" lstm.1.reverse.input.weight[8 16] lstm.1.reverse.input.bias[16] lstm.1.reverse.hidden.weight[4 16]" +
		" gru.0.input.weight[8 6] gru.0.input.bias[6] gru.0.hidden.weight[2 6] gru.0.hidden.bias[2]"
	if got := describeNodes(net.Params); got != want {
		t.Errorf("parameters %s,\nwant %s", got, want)
	}
}

// The reverse layer reads the last step first, so its output at the first step depends on the
// last step. The output of the forward layer does not.
func TestLSTM_BidirectionalReadsBothEnds(t *testing.T) {
	n := NewBuilder(1, 1)
	x := n.Input("x", 3, 1)
	y := GRU(n, x, "gru", 1, RecurrentOptions{Bidirectional: true})
	n.SetLoss(SquaredError(n, y, n.Input("target", 3, 2)), y)
	net, err := n.Network()
	if err != nil {
		t.Fatal(err)
	}
	target := make([]float32, 6)
	a := evaluate(t, net.Inputs, [][]float32{{1, 2, 3}, target}, y)[0]
	b := evaluate(t, net.Inputs, [][]float32{{1, 2, 4}, target}, y)[0]
	if a[0] != b[0] || a[1] == b[1] {
		t.Errorf("the output of the first step is %v and, with a different last step, %v", a[:2], b[:2])
	}
}

func TestSelfAttention_CausalParametersAndLoss(t *testing.T) {
	b := NewBuilder(2, 1)
	ids := b.Input("ids", 4)
	table := b.Parameter("table", Normal(1), 7, 6)
	x := AddPositionEmbedding(b, Lookup(b, table, ids), "position")
	x = SelfAttention(b, RMSNorm(b, x, "norm"), "attention", AttentionOptions{Heads: 3, Causal: true, Rotary: true, Padding: ids})
	logits := TiedLogits(b, x, table)
	b.SetLoss(CrossEntropy(b, logits, IgnoreLabel(b, b.Input("labels", 4), 0)), logits)
	net, err := b.Network()
	if err != nil {
		t.Fatal(err)
	}
	want := "table[7 6] position.weight[4 6] norm.weight[6] attention.qkv.weight[6 18] attention.qkv.bias[18]" +
		" attention.out.weight[6 6] attention.out.bias[6]"
	if got := describeNodes(net.Params); got != want {
		t.Errorf("parameters %s,\nwant %s", got, want)
	}
	if !logits.Shape().Eq(tensor.Shape{2, 4, 7}) {
		t.Errorf("logits %v", logits.Shape())
	}

	// No step sees the steps after it, and label 0 does not contribute to the loss.
	labels := []float32{1, 2, 3, 4, 5, 0, 0, 0}
	got := evaluate(t, net.Inputs, [][]float32{{1, 2, 3, 4, 1, 2, 5, 6}, labels}, logits, net.Loss)
	for i := range 14 {
		if got[0][i] != got[0][28+i] {
			t.Fatalf("logit %d of the first two steps is %v and, with different later steps, %v", i, got[0][i], got[0][28+i])
		}
	}
	var loss float64
	for i, label := range labels {
		if label == 0 {
			continue
		}
		var sum float64
		for _, v := range got[0][7*i : 7*i+7] {
			sum += math.Exp(float64(v))
		}
		loss += (math.Log(sum) - float64(got[0][7*i+int(label)])) / 4
	}
	if !(math.Abs(loss-float64(got[1][0])) <= 1e-5) {
		t.Errorf("loss %v, want %v", got[1][0], loss)
	}
}

// If all steps have the same features, the outputs of all steps are equal, because values do
// not depend on positions. Otherwise rotary queries and keys make the output depend on
// positions, and the content of a padded step does not affect other steps.
func TestSelfAttention_RotaryAndPadding(t *testing.T) {
	answers := func(rotary bool, x, padding []float32) []float32 {
		n := NewBuilder(1, 1)
		in, ids := n.Input("x", 3, 4), n.Input("ids", 3)
		y := SelfAttention(n, in, "attention", AttentionOptions{Heads: 2, Rotary: rotary, Padding: ids})
		n.SetLoss(SquaredError(n, y, n.Input("target", 3, 4)), y)
		net, err := n.Network()
		if err != nil {
			t.Fatal(err)
		}
		return evaluate(t, net.Inputs, [][]float32{x, padding, make([]float32, 12)}, y)[0]
	}
	all := []float32{0, 0, 0}
	same := []float32{1, -2, 3, 0.5, 1, -2, 3, 0.5, 1, -2, 3, 0.5}
	for _, rotary := range []bool{false, true} {
		y := answers(rotary, same, all)
		for i, v := range y {
			if !(math.Abs(float64(v-y[i%4])) <= 1e-5) {
				t.Errorf("rotary %t: number %d of step %d is %v, and %v at the first step", rotary, i%4, i/4, v, y[i%4])
			}
		}
	}
	a := []float32{1, -2, 3, 0.5, 2, 2, -1, 1, 0.5, 0, 1, -1}
	b := append(slices.Clone(a[:8]), 7, 7, -7, 7)
	if slices.Equal(answers(true, a, all), answers(false, a, all)) {
		t.Error("rotary embedding does not change the output")
	}
	last := []float32{0, 0, -1}
	if !slices.Equal(answers(true, a, last)[:8], answers(true, b, last)[:8]) {
		t.Error("the content of a padded step affects other steps")
	}
	if slices.Equal(answers(true, a, all)[:8], answers(true, b, all)[:8]) {
		t.Error("the content of a step does not affect other steps")
	}
}

// The mean is over the steps that are not padding, independent of the content of padding. It
// is zeros for an example of padding only, and has the bits of MeanOverTime without padding.
func TestMeanWithoutPadding_MatchesMeanOfSteps(t *testing.T) {
	const batch, steps, width = 4, 7, 3
	n := NewBuilder(batch, 1)
	x, ids := n.Input("x", steps, width), n.Input("ids", steps)
	y, all := MeanWithoutPadding(n, x, ids), MeanOverTime(n, x)
	n.SetLoss(SquaredError(n, y, n.Input("target", width)), y)
	net, err := n.Network()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	values, padding := make([]float32, batch*steps*width), make([]float32, batch*steps)
	for i := range values {
		values[i] = float32(r.NormFloat64())
	}
	for i := range padding {
		padding[i] = float32(r.IntN(2) * r.IntN(9))
		switch i / steps {
		case 1:
			padding[i] -= float32(i % 3)
		case 2:
			padding[i] = -1
		}
	}
	for i, p := range padding {
		if p < 0 {
			values[i*width] = float32(math.NaN())
		}
	}
	got := evaluate(t, net.Inputs, [][]float32{values, padding, make([]float32, batch*width)}, y, all)
	for b := range batch {
		for j := range width {
			var sum, count float64
			for s := b * steps; s < (b+1)*steps; s++ {
				if padding[s] >= 0 {
					sum += float64(values[s*width+j])
					count++
				}
			}
			mean := got[0][b*width+j]
			if want := sum / max(count, 1); !(math.Abs(float64(mean)-want) <= 1e-6) {
				t.Errorf("number %d of example %d, of %v steps, is %v, want %v", j, b, count, mean, want)
			}
			if whole := got[1][b*width+j]; count == steps && mean != whole {
				t.Errorf("number %d of example %d, which has no padding, is %v, and MeanOverTime gives %v", j, b, mean, whole)
			}
		}
	}

	n = NewBuilder(2, 1)
	MeanWithoutPadding(n, n.Input("x", 5, 3), n.Input("ids", 4))
	if _, err := n.Network(); err == nil || !strings.Contains(err.Error(), "padding of shape (2, 4)") {
		t.Errorf("padding of a different length: %v", err)
	}
}
