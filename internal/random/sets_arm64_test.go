//go:build !noasm

package random

import "testing"

func eachSet(t testing.TB, run func(t testing.TB, set string)) { run(t, "NEON") }
