//go:build noasm || !(amd64 || arm64)

package random

import "testing"

func eachSet(testing.TB, func(t testing.TB, set string)) {}
