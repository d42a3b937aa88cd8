//go:build !unix

package tokenizer

import (
	"testing"
	"time"
)

var started = time.Now()

// processorTime returns the time in seconds, which replaces the processor time of this process.
func processorTime(*testing.T) float64 { return time.Since(started).Seconds() }
