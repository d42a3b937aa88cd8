package neon

import (
	"slices"
	"testing"
)

// A value that is set before a loop keeps its register to the end of the loop. A register is
// free after its last use.
func TestAllocate_KeepsRegistersThroughLoops(t *testing.T) {
	f := newFunction("f", "func(n int)")
	n, kept := f.load("n"), zero(f)
	var used, later *reg
	repeat(f, n, func() {
		used = add(f, kept, kept)
		mul(f, used, used)
		later = zero(f)
	})
	after := zero(f)
	f.finish()
	if later.number == kept.number {
		t.Error("a register that the next iteration reads was reused")
	}
	if later.number != used.number {
		t.Error("an unused register was not reused")
	}
	if after.number != kept.number {
		t.Error("a register was kept after its loop")
	}
}

// Instructions of pieces alternate, unless a piece has branches.
func TestInterleave_AlternatesWithoutBranches(t *testing.T) {
	for _, branches := range []bool{false, true} {
		f := newFunction("f", "func(n int)")
		n, p, q := f.load("n"), f.vec(), f.vec()
		piece := func(x *reg) func() {
			return func() {
				if branches {
					f.at(f.label("here"))
				}
				f.op("FMOVQ (R%d), F%d", n, x)
				mul(f, x, x)
			}
		}
		f.interleave(piece(p), piece(q))
		var order []*reg
		for _, in := range f.code[1:] {
			if in.label == "" {
				order = append(order, in.regs[1])
			}
		}
		want := []*reg{p, q, p, q}
		if branches {
			want = []*reg{p, p, q, q}
		}
		if !slices.Equal(order, want) {
			t.Errorf("branches %v: wrong order of instructions", branches)
		}
	}
}

func TestAllocate_PanicsWithoutFreeRegister(t *testing.T) {
	f := newFunction("f", "func()")
	var all []*reg
	for range 33 {
		all = append(all, zero(f))
	}
	for _, r := range all {
		mul(f, r, r)
	}
	defer func() {
		if recover() == nil {
			t.Error("33 vectors were allocated to 32 registers")
		}
	}()
	f.finish()
}
