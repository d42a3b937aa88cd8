// Package optim describes optimizers, learning-rate schedules and averages of weights.
// They update weights from the noisy sum. This is post-processing of a release and costs
// no privacy.
//
// The formulas and default values are those of PyTorch (torch.optim), so that runs can be
// compared. The types are plain data with a reference implementation in Go. A device
// computes the same formulas from the same fields.
package optim
