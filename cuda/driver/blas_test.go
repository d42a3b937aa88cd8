//go:build gpu

package driver

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// TestBlas compares products with float64 where there is a GPU with cuBLASLt, and on
// the emulated device with its plain twin.
func TestBlas(t *testing.T) {
	d := device(t)
	b := opened(t, d, "DPTRAIN_CUBLASLT", "libcublasLt", OpenBlas)
	r := rand.New(rand.NewPCG(1, 2))
	computed := false
	for range 60 {
		p := Product{TransA: r.IntN(2) == 1, TransB: r.IntN(2) == 1, M: 1 + r.IntN(40), N: 1 + r.IntN(40), K: 1 + r.IntN(60),
			Batch: 1 + r.IntN(3), Accumulate: r.IntN(2) == 1, Precision: Precision(r.IntN(3))}
		rowsA, rowsB := p.M, p.K
		p.LdA, p.LdB, p.LdC = p.K, p.N, p.N
		if p.TransA {
			rowsA, p.LdA = p.K, p.M
		}
		if p.TransB {
			rowsB, p.LdB = p.N, p.K
		}
		p.LdA, p.LdB, p.LdC = p.LdA+r.IntN(5), p.LdB+r.IntN(5), p.LdC+r.IntN(5)
		p.StrideA, p.StrideB, p.StrideC = rowsA*p.LdA+r.IntN(9), rowsB*p.LdB+r.IntN(9), p.M*p.LdC+r.IntN(9)
		computed = checkProduct(t, d, b, p, r) || computed
	}
	if !computed {
		t.Error("it computes nothing")
	}
	b.Close()
}

// checkProduct runs a product as it is, and recorded, at addresses that are multiples
// of 4 bytes and no more, for which cuBLASLt itself need not have a way.
func checkProduct(t *testing.T, d *Device, b *Blas, p Product, r *rand.Rand) (computed bool) {
	t.Helper()
	const before = 3
	var at [3]Pointer
	var held [3][]float32
	for i, stride := range []int{p.StrideA, p.StrideB, p.StrideC} {
		held[i] = make([]float32, before+p.Batch*stride)
		for j := range held[i] {
			held[i][j] = float32(r.NormFloat64())
		}
		var err error
		at[i], err = d.Alloc(4 * len(held[i]))
		must(t, err)
		defer d.Free(at[i])
		must(t, d.CopyIn(at[i], floats(held[i]...)))
	}
	m, err := b.Prepare(p, at[0]+4*before, at[1]+4*before, at[2]+4*before)
	if err != nil && !d.Emulated() {
		t.Log(err)
		return false
	}
	must(t, err)
	workspace, err := d.Alloc(max(1, m.Workspace()))
	must(t, err)
	defer d.Free(workspace)
	run := func() error { return m.Run(workspace) }
	must(t, run())
	runs := 1
	if p.M%2 == 0 {
		g, err := d.Capture(run)
		must(t, err)
		defer g.Close()
		must(t, d.Run(g))
		must(t, d.Run(g))
		runs += 2
	}
	if n := testing.AllocsPerRun(10, func() { run() }); n != 0 { // of ten, for the runtime may take some meanwhile
		t.Errorf("Run takes memory %v times", n)
	}
	runs += 11 // AllocsPerRun warms up once
	m.Close()
	m.Close()

	bytes := read(t, d, at[2], 4*len(held[2]))
	want := reference(p, held, before, runs)
	unit := [...]float64{FP32: 0x1p-24, TF32: 0x1p-11, BF16: 0x1p-8}[p.Precision]
	for i, w := range want {
		got := float64(math.Float32frombits(binary.LittleEndian.Uint32(bytes[4*i:])))
		// Two operands are rounded, and K+1 sums a run; no sum of products comes near 16·√K.
		bound := (2*unit + float64(p.K+1)*0x1p-24) * 16 * math.Sqrt(float64(p.K)) * float64(runs)
		if w.untouched {
			bound = 0
		}
		if !(math.Abs(got-w.value) <= bound) {
			t.Fatalf("%+v: number %d is %g, want %g within %g", p, i, got, w.value, bound)
		}
	}
	return true
}

type wanted struct {
	value     float64
	untouched bool
}

func reference(p Product, held [3][]float32, before, runs int) []wanted {
	want := make([]wanted, len(held[2]))
	for i, v := range held[2] {
		want[i] = wanted{float64(v), true}
	}
	element := func(x []float32, ld, row, column int, transposed bool) float64 {
		if transposed {
			row, column = column, row
		}
		return float64(x[row*ld+column])
	}
	for batch := range p.Batch {
		a, b := held[0][before+batch*p.StrideA:], held[1][before+batch*p.StrideB:]
		for i := range p.M {
			for j := range p.N {
				sum := 0.0
				for k := range p.K {
					sum += element(a, p.LdA, i, k, p.TransA) * element(b, p.LdB, k, j, p.TransB)
				}
				w := &want[before+batch*p.StrideC+i*p.LdC+j]
				if p.Accumulate {
					sum = w.value + float64(runs)*sum
				}
				*w = wanted{sum, false}
			}
		}
	}
	return want
}

func TestBlasThatCannotServe(t *testing.T) {
	d := device(t)
	expect := func(says string, none bool) {
		t.Helper()
		_, err := OpenBlas(d)
		cannotServe(t, err, says, none)
	}
	for _, name := range []string{"/nonexistent/libcublasLt.so.12", "none"} {
		t.Setenv("DPTRAIN_CUBLASLT", name)
		expect("cuBLASLt was not found ("+name+": ", true)
	}
	if !d.Emulated() {
		return
	}
	t.Setenv("DPTRAIN_CUBLASLT", os.Getenv("DPTRAIN_LIBCUDA"))
	expect("lacks cublasLtCreate", false)
	t.Setenv("DPTRAIN_CUBLASLT", twin(t, "libcublasLt"))
	t.Setenv("DPTRAIN_TWIN", "old")
	expect("cuBLASLt 11.8.3 (", false)
	expect("cannot be used: with this driver its version must be 12", false)
	t.Setenv("DPTRAIN_TWIN", "no start")
	expect("cuBLASLt does not start", false)
	t.Setenv("DPTRAIN_CUBLASLT", "")
	expect("the emulated device has none", true)
}

func TestProductsThatAreNone(t *testing.T) {
	good := Product{M: 2, N: 3, K: 4, LdA: 4, LdB: 3, LdC: 3, Batch: 1}
	must(t, good.valid())
	for name, change := range map[string]func(*Product){
		"M":         func(p *Product) { p.M = 0 },
		"Batch":     func(p *Product) { p.Batch = 0 },
		"LdA":       func(p *Product) { p.LdA = 3 },
		"LdB":       func(p *Product) { p.TransB = true },
		"LdC":       func(p *Product) { p.LdC = 2 },
		"StrideC":   func(p *Product) { p.StrideC = -1 },
		"precision": func(p *Product) { p.Precision = 3 },
	} {
		p := good
		change(&p)
		if err := p.valid(); err == nil || !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
