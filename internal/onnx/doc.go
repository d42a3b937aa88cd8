// Package onnx writes a network's forward pass as an ONNX model, which other
// programs run without this one: the features go in, with any number of examples
// on axis 0, and the network's answers come out.
//
// A model is made by walking the graph from the network's Output back to its
// first input, one op.Spec after another. An operation that has no translation is
// refused by name; nothing is approximated. Indices, which are numbers here, are
// int64 there.
//
// Shown by testdata/check.py with onnxruntime 1.32 and the onnx package's checker:
// every network of models/ gives, on three examples and on one, the answers of
// this program's own evaluator to within 1e-5, at most 1e-6 when last run
// (TestRuntime, which where Python has no onnxruntime still holds what is written to what
// it read then).
package onnx
