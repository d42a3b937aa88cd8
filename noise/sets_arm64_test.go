//go:build !noasm

package noise

import "testing"

func eachSet(t testing.TB, run func(t testing.TB, set string)) { run(t, "NEON") }
