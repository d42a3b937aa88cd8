// Package onnx exports a network's forward pass as an ONNX model. The model's input is the network's
// features, with a variable number of examples on axis 0. Its output is the network's Output.
//
// The export walks the graph from Output back to the first input and translates one op.Operation after
// another. An operation without a translation is refused by name; nothing is approximated. Indices
// are floating-point numbers in dptrain and int64 in the model.
//
// testdata/check.py verifies it with onnxruntime 1.32 and the checker of the onnx package: for every
// network in models/, on three examples and on one, the outputs equal those of dptrain's evaluator
// within 1e-5 (within 1e-6 when last run). If Python has no onnxruntime, the test compares the
// exported model with the pinned one instead.
package onnx
