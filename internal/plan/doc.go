// Package plan lowers a network to a device-neutral program: a list of instructions over
// buffers with shapes and lifetimes.
//
// [LowerTraining] and [LowerEvaluation] make programs. A [Device] compiles a [Program] to
// an [Executable]. Optimizations are passes over the program: [Program.Rematerialize] and
// [Program.FuseLSTM]. A pass does not change a bit of any result.
package plan
