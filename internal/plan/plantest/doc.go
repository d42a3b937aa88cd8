// Package plantest is the conformance suite of devices. It compares each operation of
// internal/op with its float64 reference over random shapes and seeds. It tests the
// guarantees that privacy depends on, to the bit where they are stated to the bit. It
// compares the release with plan.Optimizer and package noise.
package plantest
