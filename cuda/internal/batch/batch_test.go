package batch

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// Every step comes once and after the steps for which it waits, in its batch only if the batch is
// computed in sequence; a batch contains launches of one kind, at most as many as fit.
func TestJoin_KeepsDependencies(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	for range 500 {
		n := 1 + r.IntN(60)
		waits, kinds := make([][]int, n), make([]Kind, n)
		for i := range n {
			for j := range i {
				if r.IntN(12) == 0 {
					waits[i] = append(waits[i], j)
				}
			}
			if r.IntN(3) > 0 {
				kinds[i] = []Kind{{"a", 3, false}, {"b", 50, false}, {"c", 4, true}}[r.IntN(3)]
			}
		}
		var order []int
		for _, group := range Join(waits, kinds) {
			before := len(order)
			for _, i := range group {
				order = append(order, i)
				if kinds[i] != kinds[group[0]] {
					t.Fatalf("a batch of kinds %v and %v", kinds[i], kinds[group[0]])
				}
				earlier := order[:before]
				if kinds[i].InSequence {
					earlier = order
				}
				for _, j := range waits[i] {
					if !slices.Contains(earlier, j) {
						t.Fatalf("step %d comes before step %d, for which it waits", i, j)
					}
				}
			}
			if k := kinds[group[0]]; len(group) > max(k.Capacity, 1) {
				t.Fatalf("a batch has %d parts, more than %d", len(group), max(k.Capacity, 1))
			}
		}
		if slices.Sort(order); len(order) != n || len(slices.Compact(order)) != n {
			t.Fatalf("of %d steps %v come", n, order)
		}
	}
}

// A launch is delayed until all other steps wait, and the launch that begins the longest chain
// comes first: the norms (n) of three gradients (g) form a batch, although the second step is
// ready for one of its own, and gradients are computed before their memory is overwritten (x).
func TestJoin_DelaysLaunches(t *testing.T) {
	x, g, n := Kind{}, Kind{"gradient", 50, false}, Kind{"norm", 50, false}
	kinds := []Kind{x, g, n, x, g, n, x, g, n}
	waits := [][]int{{}, {0}, {1}, {1}, {3}, {4}, {4}, {6}, {7}}
	got := Join(waits, kinds)
	want := [][]int{{0}, {1}, {3}, {4}, {6}, {7}, {2, 5, 8}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Launches that wait for each other form a batch if it is computed in sequence.
func TestJoin_InSequence(t *testing.T) {
	for _, c := range []struct {
		sequence bool
		batches  int
	}{{false, 3}, {true, 1}} {
		k := Kind{"a", 50, c.sequence}
		if got := Join([][]int{{}, {0}, {1}}, []Kind{k, k, k}); len(got) != c.batches {
			t.Errorf("in sequence %v: %v", c.sequence, got)
		}
	}
}

// A kind that is in sequence comes after the launches that make another launch of the kind ready, although
// it begins the longer chain. It does not wait for other launches (b).
func TestJoin_DelaysKindsInSequence(t *testing.T) {
	a, b, s := Kind{"a", 50, false}, Kind{"b", 50, false}, Kind{"s", 50, true}
	got := Join([][]int{{}, {}, {0, 1}, {2}, {}, {0}}, []Kind{s, a, s, s, b, b})
	if want := [][]int{{1}, {0, 2, 3}, {4, 5}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The layout is that of struct Batch of kernels/batch.h for arguments of 24 bytes.
func TestTable_HasLayoutOfC(t *testing.T) {
	var table Table
	table.Add([3]uint32{3, 1, 1}, slices.Repeat([]byte{1}, 20))
	table.Add([3]uint32{2, 5, 1}, slices.Repeat([]byte{2}, 20))
	a := table.Argument()
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(a[at:]) }
	capacity := (4096 - 16) / (16 + 24)
	if len(a) != 16+capacity*(16+24) || table.Blocks() != 13 {
		t.Fatalf("%d bytes, %d blocks", len(a), table.Blocks())
	}
	if word(0) != 2 || word(16) != 0 || word(20) != 3 || word(32) != 3 || word(36) != 2 || word(40) != 5 {
		t.Errorf("the places are % x", a[:48])
	}
	arguments := a[16+16*capacity:]
	if arguments[19] != 1 || arguments[20] != 0 || arguments[24] != 2 || arguments[43] != 2 {
		t.Errorf("the arguments are % x", arguments[:48])
	}
}
