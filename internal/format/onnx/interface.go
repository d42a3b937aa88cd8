package onnx

import (
	"encoding/binary"
	"math"
)

// Interface describes what a model reads and what it answers. The zero value is a model that
// maps the network's features to the network's output.
type Interface struct {
	// Columns are the columns of a table in the order of the network's features. Each becomes
	// an input of shape [examples, 1] with the name of the column: strings for words, and
	// float64 for numbers and for dates, which are days since 1970-01-01. NaN is a missing
	// value.
	Columns []Column
	// Pixels makes the features bytes, and maps each to a number: one entry for each channel,
	// or one for all.
	Pixels []Standardization
	// Whole is the shape of pictures in channels, height and width, of which the network reads the
	// middle; nil: it reads all of what the model reads.
	Whole []int
	// Classes are the names of the classes. The model has two more outputs: class, the name of
	// the most probable one, and probabilities, in this order.
	Classes []string
	// Target maps the output, a number from -1 to 1, to numbers from Low to High, and limits
	// it to these.
	Target *Bounds
}

// Bounds are the limits of a number. Features and targets are scaled by them to [-1, 1].
type Bounds struct{ Low, High float64 }

// Standardization maps a byte b to (b/255 - Mean) / Deviation.
type Standardization struct{ Mean, Deviation float64 }

// The names of the outputs, if no column has them.
const (
	Output        = "output"
	ClassOutput   = "class"
	Probabilities = "probabilities"
)

// mlDomain has the operators for strings.
const mlDomain, mlOpset = "ai.onnx.ml", 2

// readFeatures declares the inputs and writes the nodes that make features of them. It returns
// the name of the features.
func (w *writer) readFeatures(in Interface) string {
	example := []int(w.feature.Shape()[1:])
	if in.Whole == nil {
		return w.readExamples(in, example)
	}
	top, left := (in.Whole[1]-example[1])/2, (in.Whole[2]-example[2])/2
	return w.emit("Slice", []string{w.readExamples(in, in.Whole), w.integers(top, left),
		w.integers(top+example[1], left+example[2]), w.integers(2, 3)})
}

// readExamples declares the inputs for examples of a shape.
func (w *writer) readExamples(in Interface, example []int) string {
	name := w.feature.Name()
	switch {
	case in.Columns != nil:
		return w.encodeColumns(in.Columns)
	case in.Pixels != nil:
		name = w.declareInput(name, uint8s, example)
		mean, deviation := make([]float64, len(in.Pixels)), make([]float64, len(in.Pixels))
		for i, s := range in.Pixels {
			mean[i], deviation[i] = s.Mean, s.Deviation
		}
		dims := []int{len(in.Pixels)}
		for range len(example) - 1 {
			dims = append(dims, 1)
		}
		unit := w.emit("Div", []string{w.emit("Cast", []string{name}, attribute{"to", float64s}), w.doubles(nil, 255)})
		centered := w.emit("Sub", []string{unit, w.doubles(dims, mean...)})
		return w.castToFloat(w.emit("Div", []string{centered, w.doubles(dims, deviation...)}))
	}
	return w.declareInput(name, w.featureType, example)
}

// declareInput adds an input of the model and returns its name.
func (w *writer) declareInput(name string, kind int64, example []int) string {
	name = w.uniqueName(name)
	w.inputs = append(w.inputs, name)
	w.graph.bytes(11, valueInfo(name, kind, example))
	return name
}

// reserveOutputs reserves the names of the outputs.
func (w *writer) reserveOutputs(in Interface) {
	if in.Classes != nil {
		w.outputs = append(w.outputs, w.uniqueName(ClassOutput), w.uniqueName(Probabilities))
	}
	w.outputs = append(w.outputs, w.uniqueName(Output))
}

// writeAnswers writes the nodes from the network's output to the outputs of the model, whose
// names are reserved.
func (w *writer) writeAnswers(in Interface, output string, example []int) {
	if b := in.Target; b != nil {
		half := w.scalar((b.High - b.Low) / 2)
		middle := w.scalar(b.Low + (b.High-b.Low)/2)
		output = w.emit("Add", []string{w.emit("Mul", []string{output, half}), middle})
		output = w.emit("Clip", []string{output, w.scalar(b.Low), w.scalar(b.High)})
	}
	if in.Classes != nil {
		classes := make([]int, len(in.Classes))
		for i := range classes {
			classes[i] = i
		}
		best := w.emit("ArgMax", []string{output}, attribute{"axis", 1}, attribute{"keepdims", 0})
		w.writeOutput(w.outputs[0], texts, nil, w.emitML("LabelEncoder", []string{best},
			attribute{"keys_int64s", classes}, attribute{"values_strings", in.Classes}, attribute{"default_string", ""}))
		w.writeOutput(w.outputs[1], float32s, example, w.emit("Softmax", []string{output}, attribute{"axis", 1}))
	}
	w.writeOutput(w.outputs[len(w.outputs)-1], float32s, example, output)
}

// writeOutput makes a tensor an output of the model.
func (w *writer) writeOutput(name string, kind int64, example []int, tensor string) {
	w.emitAs(name, "Identity", []string{tensor})
	w.graph.bytes(12, valueInfo(name, kind, example))
}

// doubles adds a float64 constant.
func (w *writer) doubles(dims []int, values ...float64) string {
	raw := make([]byte, 0, 8*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
	}
	name := w.uniqueName("double")
	w.graph.bytes(5, tensorProto(name, float64s, dims, raw))
	return name
}
