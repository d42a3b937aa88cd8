package layer

import (
	"slices"
	"testing"

	G "gorgonia.org/gorgonia"
)

// Step selects a step, by a slice or, of more steps than Gorgonia slices, by weights.
func TestStep(t *testing.T) {
	for _, steps := range []int{1, 2, 5, 577} {
		b := NewBuilder(2, 1)
		x := b.Input("x", steps, 3)
		values := make([]float32, 2*steps*3)
		for i := range values {
			values[i] = float32(i%64) - 20
		}
		var nodes []*G.Node
		var want [][]float32
		for _, step := range []int{0, steps - 1} {
			if step == 0 && len(nodes) > 0 {
				continue
			}
			nodes = append(nodes, Step(b, x, step))
			want = append(want, slices.Concat(values[step*3:][:3], values[(steps+step)*3:][:3]))
		}
		if b.err != nil {
			t.Fatal(b.err)
		}
		for i, got := range evaluate(t, G.Nodes{x}, [][]float32{values}, nodes...) {
			for j, y := range got {
				if d := y - want[i][j]; d > 1e-4 || d < -1e-4 {
					t.Errorf("%d steps, slice %d: %v, want %v", steps, i, got, want[i])
					break
				}
			}
		}
	}
	b := NewBuilder(1, 1)
	if Step(b, b.Input("x", 3, 2), 3); b.err == nil {
		t.Error("a step behind the last is accepted")
	}
}

// Sequences of tokens and of cells have the order of their parts.
func TestConcatenate_TokensAndCells(t *testing.T) {
	b := NewBuilder(2, 1)
	x := b.Input("x", 2, 1, 3) // 2 channels, 3 cells
	b.UseInitialValues(func(name string, shape []int) func([]float32) {
		return func(into []float32) {
			for i := range into {
				into[i] = float32(100 * (i + 1))
			}
		}
	})
	cells := Sequence(b, StandardizeChannels(b, x, "pixels", []float64{1, 2}, []float64{1, 0.5}))
	y := Concatenate(b, Token(b, cells, "token"), cells)
	z := AddToSteps(b, y, "positions")
	if b.err != nil {
		t.Fatal(b.err)
	}
	got := evaluate(t, G.Nodes{x}, [][]float32{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}, y, z)
	want := []float32{100, 200, 0, 4, 1, 6, 2, 8, 100, 200, 6, 16, 7, 18, 8, 20}
	if !slices.Equal(got[0], want) {
		t.Errorf("%v, want %v", got[0], want)
	}
	for i := range want {
		if got[1][i] != want[i]+float32(100*(i%8+1)) {
			t.Fatalf("with positions: %v", got[1])
		}
	}
}
