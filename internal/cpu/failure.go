package cpu

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// told is what may be said of a panic that was just recovered from: of Go's own, whose words
// may hold a number of a record, only where it was.
func told(p any) any {
	if _, own := p.(runtime.Error); !own {
		return p
	}
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	panicked := false
	for {
		f, more := frames.Next()
		within := strings.HasPrefix(f.Function, "runtime.")
		if panicked && !within || !more {
			return fmt.Sprintf("a bug at %s:%d", filepath.Base(f.File), f.Line)
		}
		panicked = panicked || within
	}
}
