//go:build js && wasm

// Engine is the module of the chapters that train.
package main

import (
	"github.com/dptrain/dptrain/cmd/dptrain/internal/learn/operation"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/learn/training"
)

func main() { operation.Serve(training.Operations) }
