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

// TestCuBLASLt_Products compares products with float64 where there is a GPU with cuBLASLt, and on
// the emulated device with its stand-in.
func TestCuBLASLt_Products(t *testing.T) {
	d := device(t)
	b := opened(t, d, "DPTRAIN_CUBLASLT", "libcublasLt", OpenCuBLASLt)
	r := rand.New(rand.NewPCG(1, 2))
	computed := false
	for range 60 {
		p := Product{TransB: r.IntN(2) == 1, M: 1 + r.IntN(40), N: 1 + r.IntN(40), K: 1 + r.IntN(60), Precision: Precision(r.IntN(3))}
		computed = checkProduct(t, d, b, p, r) || computed
	}
	if !computed {
		t.Error("it computes nothing")
	}
	b.Close()
}

// checkProduct runs a product as it is, and recorded, at addresses that are multiples
// of 4 bytes and no more, for which cuBLASLt itself need not have a way.
func checkProduct(t *testing.T, d *Device, b *CuBLASLt, p Product, r *rand.Rand) (computed bool) {
	t.Helper()
	const margin = 3 // elements before and after each matrix
	var at [3]Pointer
	var memory [3][]float32
	for i, size := range []int{p.M * p.K, p.K * p.N, p.M * p.N} {
		memory[i] = make([]float32, margin+size+margin)
		for j := range memory[i] {
			memory[i][j] = float32(r.NormFloat64())
		}
		var err error
		at[i], err = d.Alloc(4 * len(memory[i]))
		must(t, err)
		defer d.Free(at[i])
		must(t, d.CopyIn(at[i], floats(memory[i]...)))
	}
	m, err := b.Prepare(p, at[0]+4*margin, at[1]+4*margin, at[2]+4*margin)
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
	if p.M%2 == 0 {
		g, err := d.Capture(run)
		must(t, err)
		defer g.Close()
		must(t, d.LaunchGraph(g))
		must(t, d.LaunchGraph(g))
	}
	if n := testing.AllocsPerRun(10, func() { run() }); n != 0 { // of ten, for the runtime may take some meanwhile
		t.Errorf("Run takes memory %v times", n)
	}
	m.Close()
	m.Close()

	bytes := read(t, d, at[2], 4*len(memory[2]))
	want := reference(p, memory, margin)
	unit := [...]float64{FP32: 0x1p-24, TF32: 0x1p-11, BF16: 0x1p-8}[p.Precision]
	for i, w := range want {
		got := float64(math.Float32frombits(binary.LittleEndian.Uint32(bytes[4*i:])))
		// Two operands are rounded, and K+1 sums; no sum of products comes near 16·√K.
		bound := (2*unit + float64(p.K+1)*0x1p-24) * 16 * math.Sqrt(float64(p.K))
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

func reference(p Product, memory [3][]float32, margin int) []wanted {
	want := make([]wanted, len(memory[2]))
	for i, v := range memory[2] {
		want[i] = wanted{float64(v), true}
	}
	a, b := memory[0][margin:], memory[1][margin:]
	for i := range p.M {
		for j := range p.N {
			sum := 0.0
			for k := range p.K {
				at := k*p.N + j
				if p.TransB {
					at = j*p.K + k
				}
				sum += float64(a[i*p.K+k]) * float64(b[at])
			}
			want[margin+i*p.N+j] = wanted{sum, false}
		}
	}
	return want
}

func TestOpenCuBLASLt_Refuses(t *testing.T) {
	d := device(t)
	expect := func(message string, none bool) {
		t.Helper()
		_, err := OpenCuBLASLt(d)
		cannotServe(t, err, message, none)
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
	t.Setenv("DPTRAIN_CUBLASLT", standIn(t, "libcublasLt"))
	t.Setenv("DPTRAIN_TWIN", "old")
	expect("cuBLASLt 11.8.3 (", false)
	expect("cannot be used: this driver supports version 12", false)
	t.Setenv("DPTRAIN_TWIN", "no start")
	expect("cuBLASLt cannot be initialized", false)
	t.Setenv("DPTRAIN_CUBLASLT", "")
	expect("the emulated device has none", true)
}

func TestProduct_RefusesInvalid(t *testing.T) {
	good := Product{M: 2, N: 3, K: 4}
	must(t, good.valid())
	for name, change := range map[string]func(*Product){
		"sizes":     func(p *Product) { p.K = 0 },
		"Precision": func(p *Product) { p.Precision = 3 },
	} {
		p := good
		change(&p)
		if err := p.valid(); err == nil || !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
