// Package drawdiscard trains models from data that stay with their owners, by draw and discard
// (Pihur et al. 2018, "Differentially-Private 'Draw and Discard' Machine Learning",
// arXiv 1807.04369).
//
// # The idea
//
// A server keeps k [Instances] of one model. A client draws one of them at random, computes the
// average gradient g of its own records, adds noise (a [Mechanism]), takes one step and returns the
// result, which replaces a random instance. The server has no rounds and no batches.
//
//	server                                       client, with records of its own
//	┌────┬────┬────┬────┐   draw: slot 3
//	│ w1 │ w2 │ w3 │ w4 │ ─────────────────▶  g = average gradient at w3
//	└────┴────┴────┴────┘                     f = round(K·clip(g, c)/c)      integers in [−K, K]
//	       ▲                return            w' = w3 − η·(c/K)·(f + noise)
//	       └───────────────────────────────── w'
//	      slot 2, chosen at random, is discarded and becomes w'
//
// The average of the instances is the model for predictions. Each update replaces one of k
// instances, so the average moves by a k-th part of the difference, and the spread of the instances
// stays where it starts ([StationaryVariance]).
//
// The privacy of a client is local: it holds against the server, which sees w3 and w'. [Mechanism]
// states it. It differs from the guarantee of package engine, whose noise hides a record in the sum
// of a lot from those who see the released weights.
//
// # Where each part lives
//
//   - spec.go, model.go: the public description of a model, from which server and clients build it.
//   - glm.go, network.go: gradients of generalised linear models and of networks.
//   - records.go: the records of one client. mechanism.go: its private step.
//   - instances.go, stationary.go: the server's instances; codec.go: their weights as bytes.
//   - spam_filter.go: the test of returned models. noise_bank.go: fast noise for simulations.
//   - Packages server and client do the same over HTTP; cmd/dptrain/internal/simulation in one process.
package drawdiscard
