package main

import (
	"math"
	"testing"
	"time"
)

// One rank takes the measured time. More ranks divide it, and send sums and weights.
func TestPredict_SumsAndWeights(t *testing.T) {
	c := cluster{MaxRanks: 8, Faster: 2, Link: 8, Latency: time.Millisecond, Price: 3}
	lots := plannedLots{Steps: 1800, Lot: 4096, Weights: 1e6}
	m := measuredLot{Records: 3, Release: 1}
	one := c.predict(lots, m, 1)
	if one.StepSeconds != 2 || one.SentBytes != 0 || one.Sending != 0 || one.Efficiency != 1 || one.TotalSeconds != 3600 || one.Cost != 3 {
		t.Errorf("one rank: %+v", one)
	}
	four := c.predict(lots, m, 4)
	if want := 0.75 * (5 + 4) * 1e6; four.SentBytes != want {
		t.Errorf("a rank of four sends %v bytes, want %v", four.SentBytes, want)
	}
	// 6.75 MB at 1 GB/s, and 9 calls of 2·log₂4 messages.
	sending := 0.00675 + 9*4*0.001
	if want := (3/4.0*busiest(4096, 4)+1/4.0)/2 + sending; math.Abs(four.StepSeconds-want) > 1e-9 {
		t.Errorf("a step of four ranks takes %v s, want %v", four.StepSeconds, want)
	}
	lots.Lot, lots.Averaged = 500, true
	if got, want := c.predict(lots, m, 4).SentBytes, 0.75*(4+8)*1e6; got != want {
		t.Errorf("with small lots and averages a rank sends %v bytes, want %v", got, want)
	}
}

// The busiest rank of a lot, against the mean of drawn lots.
func TestBusiest_OfDrawnLots(t *testing.T) {
	if got := busiest(256, 2); got < 1.05 || got > 1.12 { // E max of two Poisson(128) is 128 + √(128/π) ≈ 134.4
		t.Errorf("the busiest of two ranks has %v of the mean, want 1.05 to 1.12", got)
	}
	if got := busiest(2, 1024); got != 512 {
		t.Errorf("a lot of 2 on 1,024 ranks: %v of the mean, want one record", got)
	}
}

func TestPlan_OfDigits(t *testing.T) {
	const chosen = " --stop-at-epsilon 3 --metric loss:noise=9,every=2 --noise-schedule when:loss<=1e300->x0.6"
	const projected = " --model logistic --project 10 --project-noise 8"
	for flags, weights := range map[string]float64{"": 26010, projected: 110, chosen: 26010, projected + chosen: 110} {
		v := runJSON(t, "plan --lot 64 --steps 4 --ranks 4 --noise 2 --threads 1"+flags)
		plans := v["plans"].([]any)
		if len(plans) != 3 || plans[2].(map[string]any)["ranks"].(float64) != 4 || plans[0].(map[string]any)["step_seconds"].(float64) <= 0 || v["parameters"] != weights {
			t.Errorf("%s: %v", flags, v)
		}
	}
	checkUsageError(t, "plan --link 0", "--link are above 0")
}
