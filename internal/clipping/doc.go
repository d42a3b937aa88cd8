// Package clipping computes clip factors and sensitivities for the groups, bounds and rules of package
// clip, whose documentation states the guarantee.
//
// A [Clipper] turns the squared norms of a microbatch into factors. A device that computes factors
// where the norms are takes the clipper's [Formula] instead. [Accuracy] states how exact the norms are;
// factors are reduced by the error that it allows.
package clipping
