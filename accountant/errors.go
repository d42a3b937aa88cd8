package accountant

import (
	"errors"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
)

var (
	// ErrArgument is wrapped by errors about invalid input.
	ErrArgument = dpevent.ErrInvalid
	// ErrUnreachable is wrapped by an error about valid input for which no answer exists: a
	// target that no noise, rate or number of steps meets. The message states the nearest
	// value that can be reached.
	ErrUnreachable = errors.New("unreachable target")
)

func unreachable(format string, values ...any) error {
	return dpevent.NewError(ErrUnreachable, format, values...)
}

// formatDelta writes 1e-5 rather than 1e-05.
func formatDelta(delta float64) string {
	return strings.Replace(strconv.FormatFloat(delta, 'g', -1, 64), "e-0", "e-", 1)
}
