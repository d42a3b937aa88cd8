package drawdiscard

import "testing"

// A description from another host is refused before its shape is used: axes of a negative length
// have a positive product, and a product may leave 64 bits.
func TestSpec_RefusesImpossibleShapes(t *testing.T) {
	for _, shape := range []Shape{nil, {}, {-1, -2}, {1, -28, -28}, {0}, {0, 5}, {maxInputs + 1}, {maxInputs, 1 << 40}, {1 << 32, 1 << 32}, {1 << 13, 1 << 14}} {
		for _, model := range []string{"logistic", "linear", "mlp:2"} {
			if m, err := (Spec{Model: model, Inputs: shape, Classes: 2}).Build(1); err == nil {
				t.Errorf("%s with inputs of shape %v is built: %v", model, []int(shape), m)
			}
		}
	}
	if _, err := (Spec{Model: "logistic", Inputs: Shape{2, 3}, Classes: 2}).Build(1); err != nil {
		t.Error(err)
	}
}
