// Package simulation compares draw and discard with its alternatives in one process: the experiments
// of Pihur et al. 2018, figures 1 and 2. All methods train the same generalised linear model or network
// on the same clients:
//
//   - draw and discard with k instances: each client steps from a random instance and replaces a
//     random instance;
//   - batches on the server: one model; the server averages the noisy gradients of B clients and
//     takes one step;
//   - DP-SGD with the client as the record, by package engine: a trusted server clips, sums and adds
//     noise.
//
// A simulation protects no one's data: its noise comes from a fast generator that is not
// cryptographic, and its results are marked insecure. It is for choosing settings on public data.
package simulation
