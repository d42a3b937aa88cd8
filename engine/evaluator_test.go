package engine

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/forward"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/internal/ranks"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

func newTestEvaluator(t *testing.T, build perexample.Build) *Evaluator {
	t.Helper()
	e, err := NewEvaluator(build, DeviceOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// Sets that do not fill the batch, or fill it several times, have the scores of their examples
// one at a time.
func TestEvaluator_AnySetSize(t *testing.T) {
	e := newTestEvaluator(t, mlp)
	for _, n := range []int{1, 3, forward.LargestBatch - 1, forward.LargestBatch, forward.LargestBatch + 1, 3*forward.LargestBatch + 17} {
		set := mlpExamples(n, 9)
		got, err := e.Score(e.Weights(), set)
		if err != nil {
			t.Fatal(err)
		}
		want := Evaluation{Examples: n, Labels: n}
		right, counted := 0, 0
		for i := range n {
			x, label := make([]float32, features), make([]float32, 1)
			if err := set.Read([][]float32{x, label}, []int{i}); err != nil {
				t.Fatal(err)
			}
			one, err := e.Score(e.Weights(), newTable(x, label, nil))
			if err != nil {
				t.Fatal(err)
			}
			want.Loss += one.Loss / float64(n)
			right += int(one.Accuracy)
		}
		want.Accuracy = float64(right) / float64(n)
		for _, row := range got.Confusion {
			for _, k := range row {
				counted += k
			}
		}
		if got.Examples != n || got.Labels != n || counted != n || got.Accuracy != want.Accuracy || !(math.Abs(got.Loss-want.Loss) <= 1e-6) {
			t.Errorf("%d examples: %+v, want %+v", n, got, want)
		}
	}
}

// One example does not take the time of a batch: the network is compiled for few examples. A network that
// has no form for few examples computes them in a batch.
func TestEvaluator_CompilesForFewExamples(t *testing.T) {
	notFor8 := func(batch int) (*perexample.Network, error) {
		if batch == 8 {
			return nil, errors.New("the network has no form for 8 examples")
		}
		return mlp(batch)
	}
	for _, c := range []struct {
		build    perexample.Build
		examples int
		want     int
	}{{mlp, 1, 1}, {mlp, 2, 8}, {mlp, 64, 64}, {mlp, 65, forward.LargestBatch}, {mlp, 1000, forward.LargestBatch}, {notFor8, 5, forward.LargestBatch}} {
		e := newTestEvaluator(t, c.build)
		for range 2 {
			if _, err := e.Score(e.Weights(), mlpExamples(c.examples, 9)); err != nil {
				t.Fatal(err)
			}
			if b := e.network.BatchFor(c.examples); b.Size != c.want || len(b.Executable.Losses()) != c.want {
				t.Errorf("%d examples are computed by %d, want %d", c.examples, b.Size, c.want)
			}
			for _, w := range e.Weights() {
				w[0]++ // the executables compute with these weights
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if _, err := e.Score(e.Weights(), mlpExamples(c.examples, 9)); err != nil {
			t.Errorf("after Close: %v", err)
		}
	}
}

// buildLinearClassifier has two features and three classes.
func buildLinearClassifier(batch int) (*perexample.Network, error) {
	n := layer.NewBuilder(batch, 1)
	x, label := n.Input("x", 2), n.Input("label")
	logits := layer.Dense(n, x, "fc", 3, layer.Identity)
	n.SetLoss(layer.CrossEntropy(n, logits, label), logits)
	return n.Network()
}

// numberedExamples have their number and 1 as features.
func numberedExamples(count int) (x, labels []float32) {
	x, labels = make([]float32, 2*count), make([]float32, count)
	for i := range count {
		x[2*i], x[2*i+1], labels[i] = float32(i), 1, float32(i%3)
	}
	return x, labels
}

// ScoreEach passes the label and the output of every example, in order, and scores as Score does.
func TestEvaluator_ScoreEach(t *testing.T) {
	const count = forward.LargestBatch + 3
	x, labels := numberedExamples(count)
	e, weights, set := newTestEvaluator(t, buildLinearClassifier), [][]float32{{1, 2, 0, 0, 0, 5}, {0, -1, 0}}, newTable(x, labels, nil)
	outputs, err := e.Predictions(weights, set)
	if err != nil {
		t.Fatal(err)
	}
	want, err := e.Score(weights, set)
	if err != nil {
		t.Fatal(err)
	}
	next := 0
	got, err := e.ScoreEach(weights, set, func(expected, output []float32) {
		if !slices.Equal(expected, labels[next:next+1]) || !slices.Equal(output, outputs[next]) {
			t.Fatalf("example %d: label %v and output %v, want %v and %v", next, expected, output, labels[next], outputs[next])
		}
		next++
	})
	if err != nil || next != count || !reflect.DeepEqual(got, want) {
		t.Errorf("%d examples, %+v, %v; want %+v", next, got, err, want)
	}
}

// Several ranks give the evaluation of one process, bit for bit, for sets of all sizes: of labels, and of targets.
func TestEvaluator_ScoreTogether(t *testing.T) {
	for _, count := range []int{1, 64, forward.LargestBatch, forward.LargestBatch + 1, 5*forward.LargestBatch + 3} {
		x, labels := numberedExamples(count)
		weights, set := [][]float32{{1, 2, 0, 0, 0, 5}, {0, -1, 0}}, newTable(x, labels, nil)
		var all [][]float32
		keep := func(expected, output []float32) { all = append(all, append(slices.Clone(expected), output...)) }
		want, err := newTestEvaluator(t, buildLinearClassifier).ScoreEach(weights, set, keep)
		if err != nil {
			t.Fatal(err)
		}
		one := all
		for n := 1; n <= 4; n++ {
			all = nil
			failed := eachRank(n, func(c ranks.Communicator) error {
				e, each := newTestEvaluator(t, buildLinearClassifier), keep
				if c.Rank() > 0 {
					each = func(_, _ []float32) { t.Error("another rank than 0 gets the outputs") }
				}
				got, err := e.ScoreTogether(c, weights, set, each)
				if err == nil && c.Rank() == 0 && !reflect.DeepEqual(got, want) {
					t.Errorf("%d examples on %d ranks: %+v, want %+v", count, n, got, want)
				}
				return err
			})
			if err := errors.Join(failed...); err != nil || !reflect.DeepEqual(all, one) {
				t.Errorf("%d examples on %d ranks: %v, or other outputs than in one process", count, n, err)
			}
		}
	}
}

// A rank that cannot read the set ends the evaluation on all of them. A rank with another set computes nothing.
func TestEvaluator_ScoreTogetherFails(t *testing.T) {
	x, labels := numberedExamples(3 * forward.LargestBatch)
	weights, set := [][]float32{{1, 2, 0, 0, 0, 5}, {0, -1, 0}}, newTable(x, labels, nil)
	for failing := range 3 {
		failed := eachRank(3, func(c ranks.Communicator) error {
			var of data.Set = set
			if c.Rank() == failing {
				of = unreadable{set}
			}
			_, err := newTestEvaluator(t, buildLinearClassifier).ScoreTogether(c, weights, of, nil)
			return err
		})
		for rank, err := range failed {
			if want := fmt.Sprintf("rank %d: the disk is gone", failing); err == nil || err.Error() != want {
				t.Errorf("rank %d: %v, want %s", rank, err, want)
			}
		}
	}
	failed := eachRank(3, func(c ranks.Communicator) error {
		of := set
		if c.Rank() == 2 {
			few, labels := numberedExamples(9)
			of = newTable(few, labels, nil)
		}
		got, err := newTestEvaluator(t, buildLinearClassifier).ScoreTogether(c, weights, of, nil)
		if c.Rank() == 0 && got.Examples != 3*forward.LargestBatch {
			t.Errorf("rank 0 evaluates %d examples", got.Examples)
		}
		return err
	})
	if err := errors.Join(failed...); err != nil {
		t.Error(err)
	}
}

// unreadable is a set whose second batch cannot be read.
type unreadable struct{ data.Set }

func (u unreadable) Read(dst [][]float32, rows []int) error {
	if rows[0] >= forward.LargestBatch {
		return errors.New("the disk is gone")
	}
	return u.Set.Read(dst, rows)
}

// Where a run computes one record at a time, because examples may influence each other, the
// output for an example is that of the example alone.
func TestEvaluator_SingleExamples(t *testing.T) {
	build := func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		h := layer.Dense(n, n.Input("x", 2), "fc", 6, layer.Tanh)
		h = n.Try(func() (*G.Node, error) { return G.Reshape(h, tensor.Shape{2, 3 * batch}) })
		h = n.Try(func() (*G.Node, error) { return G.SoftMax(h, 1) })
		h = n.Try(func() (*G.Node, error) { return G.Reshape(h, tensor.Shape{batch, 6}) })
		n.SetLoss(layer.CrossEntropy(n, h, n.Input("label")), h)
		return n.Network()
	}
	e := newTestEvaluator(t, build)
	set := newTable([]float32{1, 2, -3, 4, 5, -6}, []float32{0, 1, 0}, nil)
	all, err := e.Predictions(e.Weights(), set)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range all {
		alone, err := data.Subset(set, []int{i})
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Predictions(e.Weights(), alone)
		if err != nil || !slices.Equal(got[0], want) {
			t.Errorf("example %d is answered by %v, alone by %v (%v)", i, want, got, err)
		}
	}
}

// The prediction for an example is that of a linear map, independently of its neighbours in the
// batch and of its label.
func TestEvaluator_PredictionsAreIndependent(t *testing.T) {
	const count = forward.LargestBatch + 3
	x, labels := numberedExamples(count)
	answers, err := newTestEvaluator(t, buildLinearClassifier).Predictions([][]float32{{1, 2, 0, 0, 0, 5}, {0, -1, 0}}, newTable(x, labels, nil))
	if err != nil || len(answers) != count {
		t.Fatalf("%d answers, %v; want %d", len(answers), err, count)
	}
	for i, got := range answers {
		if want := []float32{float32(i), float32(2*i) - 1, 5}; !slices.Equal(got, want) {
			t.Errorf("example %d: %v, want %v", i, got, want)
		}
	}
	alone, err := data.NewTable([]data.Column{{Name: "x", Shape: []int{2}}}, [][]float32{x}, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := newTestEvaluator(t, buildLinearClassifier).Predictions([][]float32{{1, 2, 0, 0, 0, 5}, {0, -1, 0}}, alone)
	if err != nil || !reflect.DeepEqual(again, answers) {
		t.Errorf("without labels: other answers, or %v", err)
	}
	if _, err := newTestEvaluator(t, buildLinearClassifier).Score([][]float32{{1, 2, 0, 0, 0, 5}, {0, -1, 0}}, alone); err == nil || !strings.Contains(err.Error(), "2 inputs and the data 1 columns") {
		t.Errorf("scored without labels: %v", err)
	}
	enough, last := errors.New("enough"), -1
	err = newTestEvaluator(t, buildLinearClassifier).Predict([][]float32{{1, 2, 0, 0, 0, 5}, {0, -1, 0}}, alone, func(i int, answer []float32) error {
		if last++; i != last || !slices.Equal(answer, answers[i]) {
			t.Errorf("answer %d to example %d: %v", last, i, answer)
		}
		if i == forward.LargestBatch+1 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || last != forward.LargestBatch+1 {
		t.Errorf("one at a time: ended after %d by %v", last, err)
	}
	late := func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		label, x := n.Input("label"), n.Input("x", 2)
		logits := layer.Dense(n, x, "fc", 3, layer.Identity)
		n.SetLoss(layer.CrossEntropy(n, logits, label), logits)
		return n.Network()
	}
	if _, err := newTestEvaluator(t, late).Predictions([][]float32{{1, 2, 0, 0, 0, 5}, {0, -1, 0}}, alone); err == nil || !strings.Contains(err.Error(), "2 inputs and the data 1 columns") {
		t.Errorf("the labels come first: %v", err)
	}
	if _, err := newTestEvaluator(t, linearNetwork(2)).Predictions([][]float32{{1, 2}}, newColumnTable(5, zeros, 2)); err == nil || !strings.Contains(err.Error(), "set Output") {
		t.Errorf("a network without answers: %v", err)
	}
}

// A set without labels has a loss and no accuracy.
func TestEvaluator_WithoutLabels(t *testing.T) {
	got, err := newTestEvaluator(t, linearNetwork(2)).Score([][]float32{{1, 2}}, newColumnTable(5, func(i, k, j int) float32 { return float32(i) }, 2))
	if err != nil || got.Labels != 0 || got.Accuracy != 0 || got.Confusion != nil || !(math.Abs(got.Loss-6) <= 1e-6) {
		t.Errorf("%+v, %v; want a loss of 6 alone", got, err)
	}
}

// Each label of an example with several labels counts.
func TestEvaluator_Sequences(t *testing.T) {
	build := func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		x, labels := n.Input("x", 2, 3), n.Input("label", 2)
		logits := layer.Dense(n, x, "fc", 3, layer.Identity)
		n.SetLoss(layer.CrossEntropy(n, logits, labels), logits)
		return n.Network()
	}
	set, err := data.NewTable([]data.Column{{Name: "x", Shape: []int{2, 3}}, {Name: "label", Kind: data.Label, Shape: []int{2}, Classes: 3}},
		[][]float32{{1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0}, {0, 2, 1, 2}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	identity := []float32{1, 0, 0, 0, 1, 0, 0, 0, 1}
	weights := [][]float32{identity, {0, 0, 0}}
	got, err := newTestEvaluator(t, build).Score(weights, set)
	if err != nil || got.Labels != 4 || got.Accuracy != 0.75 || got.Confusion[2][1] != 1 {
		t.Errorf("%+v, %v; want 3 of 4 right", got, err)
	}

	// Padding is not a label.
	set, err = data.NewTable(set.Columns(), [][]float32{{1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0}, {0, -1, -1, 2, -1, -1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := newTestEvaluator(t, build)
	if got, err = e.Score(weights, set); err != nil || got.Labels != 2 || got.Accuracy != 0.5 || got.Examples != 3 {
		t.Errorf("%+v, %v; want 1 of 2 right", got, err)
	}
	if shares, err := e.exampleScores(weights, set); err != nil || !slices.Equal(shares, []float64{1, 0, 0}) {
		t.Errorf("shares %v, %v", shares, err)
	}
	counts := make([]float64, 3)
	ClassCounts(1, set.Columns()[1], 1).Of(counts, []load.Example{{Columns: [][]float32{nil, {0, -1}}}, {Columns: [][]float32{nil, {-1, 2}}}})
	if !slices.Equal(counts, []float64{0.25, 0, 0.25}) {
		t.Errorf("counts %v", counts)
	}
}

// Data that do not fit the network are an error.
func TestEvaluator_Refuses(t *testing.T) {
	e := newTestEvaluator(t, mlp)
	good := e.Weights()
	for want, score := range map[string]func() (Evaluation, error){
		"got 3 parameters, and the network has 4": func() (Evaluation, error) { return e.Score(good[:3], mlpExamples(3, 1)) },
		"parameter 1 has 6 elements, and the network needs 7": func() (Evaluation, error) {
			return e.Score([][]float32{good[0], good[1][:6], good[2], good[3]}, mlpExamples(3, 1))
		},
		"2 inputs and the data 1 columns": func() (Evaluation, error) { return e.Score(good, newColumnTable(3, zeros, 5)) },
		"without a set":                   func() (Evaluation, error) { return e.Score(good, nil) },
		"takes 5 numbers":                 func() (Evaluation, error) { return e.Score(good, newColumnTable(3, zeros, 4, 1)) },
		"an empty set": func() (Evaluation, error) {
			return e.Score(good, uncheckedSet{newUncheckedSet().columns, [][]float32{nil, nil}})
		},
		"not between 0 and 2": func() (Evaluation, error) { return e.Score(good, newUncheckedSet().with(1, 3, 3)) },
	} {
		if _, err := score(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for want, build := range map[string]perexample.Build{
		"no network":           nil,
		"built for 3 examples": func(int) (*perexample.Network, error) { return mlp(3) },
		"index out of range":   func(batch int) (*perexample.Network, error) { return mlp(G.Nodes{}[batch].Dims()) },
		"mixes examples":       batchMixingNetwork,
	} {
		if _, err := NewEvaluator(build, DeviceOptions{Threads: 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// batchMixingNetwork has outputs that depend on all examples of the batch.
func batchMixingNetwork(batch int) (*perexample.Network, error) {
	g := G.NewGraph()
	x := G.NewMatrix(g, tensor.Float32, G.WithShape(batch, 2), G.WithName("x"))
	y := G.NewMatrix(g, tensor.Float32, G.WithShape(batch, 2), G.WithName("y"))
	w := G.NewMatrix(g, tensor.Float32, G.WithShape(2, 2), G.WithName("w"), G.WithInit(G.GlorotN(1)))
	all := G.Must(G.Mul(G.Must(G.Mul(x, G.Must(G.Transpose(x)))), x))
	answer := G.Must(G.Mul(all, w))
	return &perexample.Network{Batch: batch, Inputs: G.Nodes{x, y}, Params: G.Nodes{w}, Output: answer,
		Loss: G.Must(G.Sum(G.Must(G.Square(G.Must(G.Sub(answer, y))))))}, nil
}

// Every device gives the scores of the CPU, for given weights and for initial weights.
func TestEvaluator_OnEveryDevice(t *testing.T) {
	set := mlpExamples(forward.LargestBatch+37, 4)
	given := make([][]float32, 0, 4)
	var want [2]Evaluation
	devices, _ := Devices()
	for _, d := range devices {
		for _, precision := range []string{"fp32", "tf32", "bf16"} {
			on := strings.HasPrefix(d.Name, "cuda")
			if precision != "fp32" && !on {
				continue
			}
			e, err := NewEvaluator(mlp, DeviceOptions{Name: d.Name, Precision: precision, Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			for i, w := range e.Weights() {
				if len(given) == i {
					other := make([]float32, len(w))
					for j, v := range w {
						other[j] = 3*v + float32(j%5-2)
					}
					given = append(given, other)
				}
			}
			for i, weights := range [][][]float32{e.Weights(), given} {
				got, err := e.Score(weights, set)
				if err != nil {
					t.Fatal(err)
				}
				if is := strings.HasPrefix(fmt.Sprintf("%T", e.network.BatchFor(set.Len()).Executable), "*compile."); is != on {
					t.Errorf("%s: evaluated by a %T", d.Name, e.network.BatchFor(set.Len()).Executable)
				}
				if want[i].Examples == 0 {
					want[i] = got
				}
				within := map[string]float64{"fp32": 1e-5, "tf32": 1e-3, "bf16": 1e-2}[precision]
				if !(math.Abs(got.Loss-want[i].Loss) <= within*want[i].Loss) || !(math.Abs(got.Accuracy-want[i].Accuracy) <= within) {
					t.Errorf("%s, %s: %v, want %v", d.Name, precision, got, want[i])
				}
				if precision == "fp32" && !reflect.DeepEqual(got.Confusion, want[i].Confusion) {
					t.Errorf("%s: answers %v, want %v", d.Name, got.Confusion, want[i].Confusion)
				}
			}
		}
	}
	if _, err := NewEvaluator(mlp, DeviceOptions{Name: "tpu"}); err == nil || !strings.Contains(err.Error(), `device "tpu" is unknown`) {
		t.Error(err)
	}
}
