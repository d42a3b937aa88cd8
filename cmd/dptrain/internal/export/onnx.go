package export

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/format/onnx"
	"github.com/dptrain/dptrain/internal/modelfile"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/models/pretrained"
	"github.com/dptrain/dptrain/perexample"
)

// checkpointPrefix begins the name of a network that started from a public checkpoint.
const checkpointPrefix = "hf:"

func onnxModel(m *modelfile.Model, metadata map[string]string) (File, error) {
	if m.Resampling != nil {
		text, err := json.Marshal(m.Resampling)
		if err != nil {
			return File{}, err
		}
		metadata["resampling"] = string(text)
	}
	build, err := mergedNetwork(m)
	if err != nil {
		return File{}, err
	}
	file, err := onnx.Model(build, onnxInterface(m.Manifest), metadata)
	if err != nil && strings.HasPrefix(m.Model, checkpointPrefix) {
		err = fmt.Errorf("%w; write --format hf", err)
	}
	return File(file), err
}

// onnxInterface returns what a model reads and answers outside dptrain: the examples as the user
// has them, and a class or a number.
func onnxInterface(m modelfile.Manifest) (in onnx.Interface) {
	in.Whole = m.Whole
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
		for _, c := range s.InputColumns() {
			in.Columns = append(in.Columns, columnOf(c))
		}
	}
	if b, bounded := m.Schema.Bounds[m.Schema.Target]; m.Targets == 1 && bounded {
		in.Target = &onnx.Bounds{Low: b[0], High: b[1]}
	}
	if m.Targets == 0 && len(m.Labels) == 0 && !m.Schema.PredictNext {
		in.Classes = slices.Clone(m.ClassNames)
	}
	return in
}

// mergedNetwork returns the network of a model, without the adapters of a checkpoint: they are merged into their layers.
func mergedNetwork(m *modelfile.Model) (perexample.Build, error) {
	checkpoint, err := models.Pretrained(m.Model)
	if err != nil || checkpoint == nil || checkpoint.Tuning.Train != pretrained.LoRA {
		return m.Build, err
	}
	plain, err := models.Parse(checkpointPrefix+checkpoint.WithoutAdapters(), m.Example(), 1)
	if err != nil {
		return nil, err
	}
	return checkpoint.MergeAdapters(m.Build, plain)
}

// columnOf describes a column for ONNX.
func columnOf(c data.InputColumn) onnx.Column {
	column := onnx.Column{Name: c.Name, Words: c.Words, Scale: onnx.Scale(c.Scale),
		Bounds: onnx.Bounds{Low: c.Bounds[0], High: c.Bounds[1]}}
	switch {
	case c.Words != nil && c.Missing == data.MissingWord:
		column.MissingWords = c.MissingCells()
	case c.Words != nil:
	case c.Missing == data.MissingBlank:
	default:
		column.Missing = onnx.Missing(c.Missing)
	}
	if c.Dates != (data.DateBounds{}) {
		seconds := c.Dates.Seconds()
		column.Date, column.Bounds = true, onnx.Bounds{Low: seconds[0], High: seconds[1]}
	}
	return column
}
