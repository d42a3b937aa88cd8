package models_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/models"
)

// An evaluator compiles a network for the number of examples that it gets. The output for an example has
// the same bits whichever number that is.
func TestParse_OutputsDoNotDependOnNumberOfExamples(t *testing.T) {
	numbers := func(shape ...int) models.DataSpec { return models.DataSpec{Shape: shape, Classes: 10} }
	text := models.DataSpec{Shape: []int{20}, Vocabulary: 50, Classes: 3}
	for spec, of := range map[string]models.DataSpec{
		"logistic":              numbers(104),
		"mlp:64":                numbers(104),
		"mlp:64,act=tanh":       {Shape: []int{5}, Targets: 1},
		"digits-cnn:norm=batch": numbers(1, 8, 8),
		"mnist-cnn:act=tanh":    numbers(1, 28, 28),
		"cifar-tanh":            numbers(3, 8, 8),
		"wrn16-4":               numbers(3, 4, 4),
		"bow":                   text,
		"lstm:20":               text,
		"gru:20":                text,
		"transformer":           text,
		"layers:conv=conv2d(8,3);relu;flatten;fc=linear(10)": numbers(2, 9, 9),
	} {
		t.Run(spec, func(t *testing.T) {
			build, err := models.Parse(spec, of, 1)
			if err != nil {
				t.Fatal(err)
			}
			const count = 300
			random := rand.New(rand.NewPCG(1, 2))
			column := data.Column{Name: "x", Shape: of.Shape}
			if of.Vocabulary > 0 {
				column.Kind, column.Classes = data.Index, of.Vocabulary
			}
			x := make([]float32, count*column.Size())
			for i := range x {
				if x[i] = float32(random.NormFloat64()); of.Vocabulary > 0 {
					x[i] = float32(random.IntN(of.Vocabulary))
				}
			}
			e, err := engine.NewEvaluator(build, engine.DeviceOptions{Name: "cpu"})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			predict := func(n int) [][]float32 {
				set, err := data.NewTable([]data.Column{column}, [][]float32{x[:n*column.Size()]}, nil)
				if err != nil {
					t.Fatal(err)
				}
				outputs, err := e.Predictions(e.Weights(), set)
				if err != nil {
					t.Fatal(err)
				}
				return outputs
			}
			want := predict(count)
			for _, n := range []int{1, 2, 7, 8, 9, 64, 65} {
				if got := predict(n); len(got) != n || !slices.EqualFunc(got, want[:n], slices.Equal) {
					t.Errorf("%d examples: other outputs than among %d", n, count)
				}
			}
		})
	}
}
