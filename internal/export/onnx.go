package export

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/onnx"
	"github.com/dptrain/dptrain/internal/rundir"
)

// onnxInterface returns what a model reads and answers outside dptrain: the examples as the user
// has them, and a class or a number.
func onnxInterface(m rundir.Manifest) (onnx.Interface, error) {
	var in onnx.Interface
	switch s := m.Schema; {
	case m.Elements == data.Bytes:
		in.Pixels = []onnx.Standardization{{Mean: 0, Deviation: 1}}
		if m.Standardize {
			in.Pixels = in.Pixels[:0]
			for _, p := range data.PublishedStandardization(m.Data) {
				in.Pixels = append(in.Pixels, onnx.Standardization(p))
			}
		}
	case s.Text == "":
		for _, name := range s.Inputs {
			c := onnx.Column{Name: name, Words: s.Vocabulary[name]}
			if b, bounded := s.Bounds[name]; bounded {
				c.Bounds = onnx.Bounds{Low: b[0], High: b[1]}
			} else if c.Words == nil {
				return in, fmt.Errorf("the model's schema has neither bounds nor a vocabulary of the input %q", name)
			}
			in.Columns = append(in.Columns, c)
		}
	}
	if b, bounded := m.Schema.Bounds[m.Schema.Target]; m.Targets == 1 && bounded {
		in.Target = &onnx.Bounds{Low: b[0], High: b[1]}
	}
	if m.Targets == 0 && len(m.Labels) == 0 && !m.Schema.PredictNext {
		in.Classes = slices.Clone(m.ClassNames)
	}
	return in, nil
}
