package plantest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// seeds is how many trials of every operation are drawn.
func seeds() uint64 {
	if testing.Short() {
		return 2
	}
	return 5
}

// Operations checks every operation on a device. Its result agrees with the reference.
// Its bits are the same for 1 to threads threads, and when it runs again. It allocates
// nothing. If an operation treats records separately, a record's bits depend neither on
// its position nor on the other records. If a program may overwrite an operand, doing so
// does not change the result. A device that does not run on the host's threads is given
// 1.
func Operations(t *testing.T, compile Compile, threads int) {
	for seed := range seeds() {
		r := rand.New(rand.NewPCG(seed, 17))
		for _, tr := range draw(r) {
			t.Run(tr.spec(tr.records).String(), func(t *testing.T) { tr.check(t, compile, r, threads) })
		}
	}
}

func (tr trial) check(t *testing.T, compile Compile, r *rand.Rand, threads int) {
	got := tr.run(t, compile, 1)
	tr.compare(t, got)
	for n := 2; n <= threads; n++ {
		sameBits(t, tr, "with other threads", tr.run(t, compile, n), got)
	}
	tr.again(t, compile, got)
	tr.over(t, compile, got)
	if tr.apart {
		tr.alone(t, compile, r, got)
	}
}

// over checks that a result is the same when it overwrites an operand of its size, if
// CanOverwrite allows that.
func (tr trial) over(t *testing.T, compile Compile, got []float32) {
	t.Helper()
	for i, x := range tr.in {
		if x.shape.TotalSize() != len(got) || !plan.CanOverwrite(tr.spec(tr.records), i) {
			continue
		}
		p := tr.program(t)
		code := &p.Front[0]
		made := make([]plan.Instruction, 0, len(tr.in)+2)
		temporary := func(of int) int {
			b := p.Buffers[of]
			b.Role, b.Base, b.Offset = plan.RoleTemporary, len(p.Buffers), p.Arena
			p.Arena += (b.Size() + 15) / 16 * 16
			p.Buffers = append(p.Buffers, b)
			return b.Base
		}
		move := func(from, to int) plan.Instruction {
			return plan.Instruction{Spec: op.Reshape{To: op.AxesOf(p.Buffers[from].Shape...)}, In: []int{from}, Out: to}
		}
		for j, in := range code.In {
			code.In[j] = temporary(in)
			made = append(made, move(in, code.In[j]))
		}
		output := code.Out
		code.Out = temporary(output)
		p.Buffers[code.Out].Offset = p.Buffers[code.In[i]].Offset
		p.Front = append(made, *code, move(code.Out, output))
		m := tr.machine(t, compile, p, 2)
		if err := m.Forward(); err != nil {
			t.Fatalf("%v: %v", tr, err)
		}
		sameBits(t, tr, fmt.Sprintf("written over operand %d", i), m.Output(), got)
	}
}

// scale is the size of a trial's largest element, or of the largest sum of absolute terms
// behind an element: rounding errors are relative to the terms, and terms may cancel.
// Norms are compared relative to their own size.
func (tr trial) scale(t *testing.T, want []float64) float64 {
	scale := 1e-3
	note := func(x []float64) {
		for _, v := range x {
			if !math.IsInf(v, 0) && !math.IsNaN(v) {
				scale = math.Max(scale, math.Abs(v))
			}
		}
	}
	note(want)
	switch tr.spec(tr.records).(type) {
	case op.SquaredNorms, op.RowSquares, op.MultiUseNorms:
		return scale
	}
	in := make([]operand, len(tr.in))
	for i, x := range tr.in {
		in[i] = x
		in[i].values = make([]float32, len(x.values))
		for j, v := range x.values {
			in[i].values[j] = float32(math.Abs(float64(v)))
		}
	}
	tr.in = in
	note(tr.reference(tr.shape(t)))
	return scale
}

// compare compares a result with the reference.
func (tr trial) compare(t *testing.T, got []float32) {
	t.Helper()
	want := tr.reference(tr.shape(t))
	if len(got) != len(want) {
		t.Fatalf("%v: %d elements, want %d", tr, len(got), len(want))
	}
	scale := tr.scale(t, want)
	for i, w := range want {
		g := float64(got[i])
		if math.IsNaN(w) && math.IsNaN(g) || g == w {
			continue
		}
		if !(math.Abs(g-w) <= tr.tolerance*scale) {
			t.Fatalf("%v: element %d of %d is %v, want %v", tr, i, len(got), g, w)
		}
	}
}

// alone checks that records do not affect each other: shuffled, repeated, among records
// of NaNs, and each by itself. The norms of mixed uses contain the rounding errors of a
// sum over the microbatch, so they are compared one by one among records of NaNs as well.
func (tr trial) alone(t *testing.T, compile Compile, r *rand.Rand, got []float32) {
	t.Helper()
	order := r.Perm(tr.records)
	for range 2 {
		at := r.IntN(len(order) + 1)
		order = append(order[:at], append([]int{-1}, order[at:]...)...)
	}
	order = append(order, r.IntN(tr.records))
	from := r.IntN(tr.records)
	single := []int{from}
	if _, mixed := tr.spec(tr.records).(op.MultiUseNorms); mixed {
		order = order[:tr.records]
		for len(single) < tr.records {
			single = append(single, -1)
		}
	}
	moved := tr.pick(order...)
	out, want := moved.run(t, compile, 2), moved.reference(moved.shape(t))
	n := len(got) / tr.records
	for i, from := range order {
		if from >= 0 {
			sameBits(t, tr, "in another place", out[i*n:(i+1)*n], got[from*n:(from+1)*n])
		} else if !numbers(want[i*n:(i+1)*n]) && numbers(out[i*n:(i+1)*n]) {
			t.Fatalf("%v: a record without numbers got some", tr)
		}
	}
	sameBits(t, tr, "by itself", tr.pick(single...).run(t, compile, 2)[:n], got[from*n:(from+1)*n])
}

// numbers reports whether all values are finite.
func numbers[F float32 | float64](x []F) bool {
	for _, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return false
		}
	}
	return true
}

func sameBits(t *testing.T, tr trial, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%v: %d elements %s, want %d", tr, len(got), what, len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
			t.Fatalf("%v: element %d is %v %s, was %v", tr, i, got[i], what, want[i])
		}
	}
}

// again checks that a second run allocates nothing and gives the same bits.
func (tr trial) again(t *testing.T, compile Compile, got []float32) {
	t.Helper()
	m := tr.machine(t, compile, tr.program(t), 2)
	allocates(t, tr.String(), func() {
		if err := m.Forward(); err != nil {
			t.Error(err)
		}
	})
	sameBits(t, tr, "run again", m.Output(), got)
}

// allocates checks that f allocates nothing after its first run. The runtime itself
// rarely allocates meanwhile; an allocation of f would happen every time.
func allocates(t *testing.T, what string, f func()) {
	t.Helper()
	var n float64
	for range 9 {
		if n = testing.AllocsPerRun(1, f); n == 0 {
			return
		}
	}
	t.Errorf("%s: %v allocations a run", what, n)
}
