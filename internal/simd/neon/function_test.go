package main

import "testing"

// What was set before a loop keeps its register to the loop's end; what is done
// with gives it back.
func TestRegistersLiveThroughLoops(t *testing.T) {
	f := newFunction("f", "func(n int)")
	n, kept := f.load("n"), f.zero()
	var used, later *reg
	f.repeat(n, func() {
		used = f.add(kept, kept)
		f.mul(used, used)
		later = f.zero()
	})
	after := f.zero()
	f.finish()
	if later.number == kept.number {
		t.Error("a register that the next turn reads was taken")
	}
	if later.number != used.number {
		t.Error("a register that nobody needs was not given back")
	}
	if after.number != kept.number {
		t.Error("a register was kept beyond its loop")
	}
}

func TestTooManyRegisters(t *testing.T) {
	f := newFunction("f", "func()")
	var all []*reg
	for range 33 {
		all = append(all, f.zero())
	}
	for _, r := range all {
		f.mul(r, r)
	}
	defer func() {
		if recover() == nil {
			t.Error("33 vectors fit 32 registers")
		}
	}()
	f.finish()
}
