package terminal

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// A long activity is noted once, before it ends. A short activity is not noted.
func TestAwait_NotesLongActivities(t *testing.T) {
	for duration, want := range map[time.Duration]string{NoteDelay / 2: "", 2 * NoteDelay: "Reading people.csv …\n"} {
		synctest.Test(t, func(t *testing.T) {
			var notes bytes.Buffer
			got, err := Await(&Terminal{Err: &notes}, "Reading people.csv", func() (int, error) {
				time.Sleep(duration)
				return 7, io.EOF
			})
			if got != 7 || err != io.EOF || notes.String() != want {
				t.Errorf("%v: %d, %v, notes %q", duration, got, err, notes.String())
			}
		})
	}
}

func TestJoinFitting(t *testing.T) {
	details := []string{"ε 1.5 of 2", "3s left", "test accuracy 90.00%"}
	for width, want := range map[int]string{
		100: "ε 1.5 of 2, 3s left, test accuracy 90.00%",
		41:  "ε 1.5 of 2, 3s left, test accuracy 90.00%",
		40:  "ε 1.5 of 2, 3s left",
		18:  "ε 1.5 of 2",
		9:   "",
		-5:  "",
	} {
		if got := joinFitting(details, width); got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
}
