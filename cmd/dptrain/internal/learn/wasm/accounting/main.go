//go:build js && wasm

// Accounting is the module of the chapters that compute costs and do not train.
package main

import (
	"github.com/dptrain/dptrain/cmd/dptrain/internal/learn/accounting"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/learn/operation"
)

func main() { operation.Serve(accounting.Operations) }
