// Package server serves models that clients train by draw and discard over HTTP
// (docs/draw-and-discard.md describes the protocol, openapi.json its endpoints).
//
// A [Server] hosts several [Model]s. A draw reads a slot of a model and takes no lock. A return is
// written to a journal and then replaces a slot; both happen under one lock of the model, so that
// the journal has the order of the replacements. A process that is killed at any moment
// therefore restarts with whole instances, and with every update that it acknowledged.
package server
