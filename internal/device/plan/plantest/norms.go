package plantest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
)

// Norms checks the guarantee that clipping depends on (clipping.Float32Accuracy), for adversarial
// records. With sq the computed square and ‖u‖² the true one,
//
//	‖u‖² ≤ (sq + 1e-30) / (1 − 1e-5)
//
// for records that cancel, are tiny or huge, or differ by many orders of magnitude. A
// record with a NaN, or whose norm overflows, must have a norm that is not finite, so
// that clipping leaves it out.
func Norms(t *testing.T, compile Compile) {
	for seed := range 2 * seeds() {
		r := rand.New(rand.NewPCG(seed, 23))
		ts := &trials{r: r, b: between(r, 2, 9)}
		ts.private()
		for _, tr := range ts.list {
			switch tr.spec(tr.records).(type) {
			case op.SquaredNorms, op.RowSquares, op.MultiUseNorms:
				t.Run(tr.spec(tr.records).String(), func(t *testing.T) { tr.hostile(r).promise(t, compile) })
			}
		}
	}
}

// hostile replaces the records' rows with adversarial ones. Indices, which are whole
// numbers, stay.
func (tr trial) hostile(r *rand.Rand) trial {
	in := make([]operand, len(tr.in))
	for i, x := range tr.in {
		if in[i] = x; indices(x) {
			continue
		}
		in[i].values = append([]float32(nil), x.values...)
		n := len(x.values) / tr.records
		for record := range tr.records {
			rows := in[i].values[record*n : (record+1)*n]
			switch kind := (record + int(r.Uint32N(2))) % 5; kind {
			case 0: // the second half cancels the first almost completely
				if i == len(tr.in)-1 || i%2 == 1 {
					half := len(rows) / 2
					for j := range half {
						rows[half+j] = -rows[j]
					}
					rows[0] *= 1 + 1e-6
				} else {
					copy(rows[len(rows)/2:], rows[:len(rows)/2])
				}
			case 1:
				for j := range rows {
					rows[j] *= 1e-22
				}
			case 2:
				for j := range rows {
					rows[j] *= 1e25 * float32(1-2*(i%2))
				}
			case 3:
				for j := range rows {
					rows[j] *= float32(math.Pow(10, float64(r.IntN(24)-12)))
				}
			case 4:
				rows[r.IntN(len(rows))] = float32(math.NaN())
			}
		}
	}
	tr.in = in
	return tr
}

func indices(x operand) bool {
	for _, v := range x.values {
		if v != float32(math.Trunc(float64(v))) {
			return false
		}
	}
	return true
}

func (tr trial) promise(t *testing.T, compile Compile) {
	got := tr.run(t, compile, 2)
	for record, want := range tr.reference(tr.shape(t)) {
		sq := float64(got[record])
		switch {
		case math.IsNaN(want) || want > 2*math.MaxFloat32:
			if sq >= 0 && !math.IsInf(sq, 0) {
				t.Fatalf("%v: record %d: %v where the norm is %v", tr, record, sq, want)
			}
		case sq < 0:
			t.Fatalf("%v: record %d: squared norm %v", tr, record, sq)
		case want*(1-1e-5) > sq+1e-30:
			t.Fatalf("%v: record %d: squared norm %v is above what %v promises", tr, record, want, sq)
		}
	}
}
