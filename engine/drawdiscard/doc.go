// Package drawdiscard trains models from data that stay with their owners, by draw and discard
// (Pihur et al. 2018, "Differentially-Private 'Draw and Discard' Machine Learning",
// arXiv 1807.04369).
//
// A server keeps k [Instances] of one model. A client draws one of them at random, computes the
// average gradient of its own records, adds noise (a [Mechanism]), takes one step and returns
// the result, which replaces a random instance. The server has no rounds and no batches. The
// average of the instances is the model for predictions.
//
// The privacy of a client is local: it holds against the server. [Mechanism] states it.
package drawdiscard
