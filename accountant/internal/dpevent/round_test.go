package dpevent

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// For many rates and shifts the test counts the events that are at least as large: rounding up
// never lowers the count, rounding down never raises it.
func TestRoundEvents_Dominates(t *testing.T) {
	const events = 3000
	r := rand.New(rand.NewPCG(21, 22))
	for _, c := range [][2]int{{1, 60}, {5, 60}, {40, 60}, {events, 60}, {14, 12}} {
		rates, limit := c[0], c[1]
		var before []RepeatedEvent
		for i := range events {
			rate := .001 * (1 + float64(i%rates)/float64(rates))
			before = append(before, RepeatedEvent{Event{Rate: rate, GaussianShift: math.Exp(r.NormFloat64())}, 1 + r.IntN(3)})
		}
		others := []RepeatedEvent{{Event{Rate: .5, LaplaceShifts: []float64{1}}, 7}, {Event{Rate: .5, LaplaceShifts: []float64{2}}, 5}} // they are not rounded
		for _, up := range []bool{true, false} {
			list := RoundEvents(append(slices.Clone(others), before...), limit+2, up)
			for _, other := range others {
				if !slices.ContainsFunc(list, func(e RepeatedEvent) bool {
					return slices.Equal(e.LaplaceShifts, other.LaplaceShifts) && e.Count == other.Count
				}) {
					t.Fatalf("%+v was lost", other)
				}
			}
		}
		upper, lower := RoundEvents(before, limit, true), RoundEvents(before, limit, false)
		if len(upper) > limit || len(lower) > limit {
			t.Fatalf("%d and %d events of at most %d", len(upper), len(lower), limit)
		}
		atLeast := func(list []RepeatedEvent, rate, shift float64) (count int) {
			for _, e := range list {
				if e.Rate >= rate && e.GaussianShift >= shift {
					count += e.Count
				}
			}
			return count
		}
		if all := atLeast(before, 0, 0); atLeast(upper, 0, 0) != all || atLeast(lower, 0, 0) != all {
			t.Fatal("lots were lost")
		}
		for _, e := range before[:300] {
			was := atLeast(before, e.Rate, e.GaussianShift)
			if up, down := atLeast(upper, e.Rate, e.GaussianShift), atLeast(lower, e.Rate, e.GaussianShift); up < was || down > was {
				t.Fatalf("of %d events above rate %v shift %v the upper has %d, the lower %d", was, e.Rate, e.GaussianShift, up, down)
			}
		}
	}
}

// Events whose shifts differ by rounding are one event with the largest shift.
func TestEventCounter_MergesRoundedShifts(t *testing.T) {
	shifts := []float64{.7, math.Nextafter(.7, 1)}
	for range 2 {
		all := eventCounter{positions: map[roundedEventKey]int{}}
		for _, s := range shifts {
			all.add(Event{Rate: .1, GaussianShift: s}, 2)
		}
		all.add(Event{Rate: .1, GaussianShift: .7001}, 1)
		if len(all.events) != 2 || all.events[0].Count != 4 || all.events[0].GaussianShift != math.Nextafter(.7, 1) {
			t.Errorf("of %v: %+v", shifts, all.events)
		}
		shifts[0], shifts[1] = shifts[1], shifts[0]
	}
}
