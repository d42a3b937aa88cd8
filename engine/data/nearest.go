package data

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/nearest"
)

// suggestion suggests the known name nearest to a wrong one, if one is near.
func suggestion(name string, known []string) string {
	best := nearest.LikelyTypo(name, known)
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}
