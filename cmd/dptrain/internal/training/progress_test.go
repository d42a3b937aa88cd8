package training

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/tensorboard"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine"
)

// On a clock with a resolution of 15 ms, a run that has no lots left can take no time. Its
// speed must still be a number that run.json can represent.
func TestExamplesPerSecond_WithoutElapsedTime(t *testing.T) {
	p := &Progress{examplesPerLot: 20, firstLot: 3}
	for _, lot := range []int{3, 5} {
		if v := p.examplesPerSecond(lot, 0); v != 0 {
			t.Errorf("lot %d: %v examples/s", lot, v)
		}
	}
}

// The speed of lots does not depend on how long the test data took.
func TestEnd_ExcludesEvaluation(t *testing.T) {
	events, err := tensorboard.Create(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	p := &Progress{examplesPerLot: 20, started: time.Now().Add(-time.Minute), evaluating: 50 * time.Second, events: events}
	p.End()
	if v := p.examplesPerSecond(10, p.trainingTime); v < 18 || v > 20 {
		t.Errorf("200 examples in ten seconds are %v examples/s", v)
	}
}

// Ten lots in a row without a contribution are noted, on marked lines only. An empty lot, which
// Poisson sampling can draw, neither counts nor ends the row.
func TestNotePrivately_RefusedLots(t *testing.T) {
	var out bytes.Buffer
	p := &Progress{term: &terminal.Terminal{Err: &out}}
	refused, empty := engine.PrivateStats{Records: 4, NonFinite: 4}, engine.PrivateStats{}
	run := func(lots int, stats engine.PrivateStats, due bool) string {
		out.Reset()
		for range lots {
			p.notePrivately(stats, due)
		}
		return out.String()
	}
	run(5, refused, false)
	run(1, engine.PrivateStats{Records: 4, NonFinite: 3}, false)
	run(3, empty, false)
	if got := run(9, refused, false); got != "" {
		t.Errorf("after 9 lots: %q", got)
	}
	run(1, empty, false)
	if got := run(1, refused, false); !strings.Contains(got, "every record of the last 10 lots was refused") {
		t.Errorf("after 10 lots: %q", got)
	}
	if got := run(5, refused, false); got != "" {
		t.Errorf("after 15 lots, which are not reported: %q", got)
	}
	got := run(1, refused, true)
	if !strings.Contains(got, "last lot had 4 records") || !strings.Contains(got, "every record of the last 16 lots was refused") {
		t.Errorf("a reported lot: %q", got)
	}
	for line := range strings.Lines(got) {
		if !strings.HasPrefix(line, "PRIVATE, do not publish: ") {
			t.Errorf("unmarked line %q", line)
		}
	}
}

func TestNoteTestLoss(t *testing.T) {
	for loss, want := range map[float64]string{2.5: "", math.NaN(): "lot 7: the loss on the public test data is NaN", math.Inf(1): "+Inf"} {
		var out bytes.Buffer
		p := &Progress{term: &terminal.Terminal{Err: &out}}
		p.noteTestLoss(7, loss)
		if got := out.String(); !strings.Contains(got, want) || (got == "") != (want == "") || strings.Contains(got, "PRIVATE") {
			t.Errorf("loss %v: %q", loss, got)
		}
	}
}

// The rank that computed longest is named, with the speed of its part of the examples.
func TestSlowestRank_NamesIt(t *testing.T) {
	durations := []time.Duration{2 * time.Second, 2500 * time.Millisecond, time.Second}
	if got, want := slowestRank(durations, 3000), "slowest rank 1 at 400 examples/s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := slowestRank([]time.Duration{0, 0}, 0); got != "slowest rank 0 at 0 examples/s" {
		t.Errorf("before the first lot: %q", got)
	}
}
