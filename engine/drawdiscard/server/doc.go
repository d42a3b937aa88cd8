// Package server serves models that clients train by draw and discard over HTTP
// (docs/draw-and-discard.md describes the protocol, openapi.json its endpoints).
//
// # The idea
//
// A [Server] hosts several [Model]s. A draw reads a slot of a model and takes no lock. A return is
// written to a journal and then replaces a slot; both happen under one lock of the model, so that
// the journal has the order of the replacements:
//
//	draw     limits ─▶ ticket ─▶ slot i (atomic pointer) ─▶ weights, cached bytes
//
//	return   limits ─▶ ticket ─▶ body ─▶ codec ─▶ spam filter ─▶ ┌ lock ────────────────────┐
//	                                                             │ journal.append(slot, w') │
//	                                                             │ slot ← w'                │
//	                                                             └──────────────────────────┘
//
//	restart  snapshot of all instances ─▶ replacements in the journal files after it
//
// A process that is killed at any moment therefore restarts with whole instances, and with every
// update that it acknowledged. The type journal states what a power failure can lose.
//
// No request costs more than its share: body.go bounds the bytes and the time of a body, limits.go,
// shares.go and connections.go the requests and connections of all clients and of each of them, and
// cached.go the work for results that many requests ask for.
//
// # Where each part lives
//
//   - server.go: endpoints and their order of checks; listen.go: TLS and sockets.
//   - model.go: one hosted model; ticket.go: a draw allows at most one return.
//   - journal.go: files of one model; check.go: reads them without a server.
//   - problem.go: error responses; metrics.go: counters in the format of Prometheus.
package server
