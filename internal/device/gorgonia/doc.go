// Package gorgonia is the device gorgonia: it runs the graph of a training program on
// Gorgonia's own operations, one after the other, each result in memory of its own. It is
// slow. The faster devices are compared with it.
//
// It does not use gorgonia.NewTapeMachine, which in v0.9.18 reuses a tensor's memory
// while a reshaped view of it is still to be read, so that norms are wrong. A test shows
// this.
package gorgonia
