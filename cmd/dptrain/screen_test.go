package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

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
