package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestRoundingIsOneSided(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200_000 {
		x := math.Exp(60*random.Float64() - 30)
		up, _ := strconv.ParseFloat(roundUp(x), 64)
		down, _ := strconv.ParseFloat(roundDown(x), 64)
		if up < x || down > x || up > x*(1+2e-5) || down < x*(1-2e-5) {
			t.Fatalf("%v is printed as %s and %s", x, roundUp(x), roundDown(x))
		}
	}
	for x, want := range map[float64]string{0: "0", 1: "1", 1e-5: "1e-05", 0.01: "0.01", 999999.5: "1e+06", math.Inf(1): "∞"} {
		if got := roundUp(x); got != want {
			t.Errorf("%v is printed as %s, want %s", x, got, want)
		}
	}
}

// What takes long says so, once and before it ends; what does not says nothing.
func TestPatience(t *testing.T) {
	for took, want := range map[time.Duration]string{patience / 2: "", 2 * patience: "Reading people.csv …\n"} {
		synctest.Test(t, func(t *testing.T) {
			var said bytes.Buffer
			got, err := patiently(&screen{err: &said}, "Reading people.csv", func() (int, error) {
				time.Sleep(took)
				return 7, io.EOF
			})
			if got != 7 || err != io.EOF || said.String() != want {
				t.Errorf("%v: %d, %v, and said %q", took, got, err, said.String())
			}
		})
	}
}

func TestNoNumbersInJSON(t *testing.T) {
	b, err := json.Marshal([]number{1.5, number(math.Inf(1)), number(math.NaN())})
	if err != nil || string(b) != `[1.5,"Infinity",null]` {
		t.Errorf("%s, %v", b, err)
	}
}
