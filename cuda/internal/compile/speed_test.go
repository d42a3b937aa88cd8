//go:build gpu

package compile

import (
	"fmt"
	"testing"
	"time"

	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/noise"
)

// numbered is the number of elements in benchmarks: larger than any GPU's cache, and few
// if the device is emulated.
func numbered(b *testing.B) int {
	device(b)
	d, err := Open(0)
	if err != nil {
		b.Fatal(err)
	}
	if d.Emulated() {
		return 1 << 12
	}
	return 1 << 26
}

// together is the number of calls before a benchmark waits for them.
const together = 10

// BenchmarkCopy measures the memory bandwidth, with which a release is compared.
func BenchmarkCopy(b *testing.B) {
	n := numbered(b)
	m := machineOf(b, bare([]int{n}), plan.Optimizer{Kind: plan.SGD}).(*Executable)
	b.SetBytes(together * 8 * int64(n))
	for b.Loop() {
		for range together {
			if err := m.device.Copy(m.state.parameters[0].sum, m.state.parameters[0].weights, 4*n); err != nil {
				b.Fatal(err)
			}
		}
		if err := m.device.Synchronize(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRelease measures noise and update: every number of a weight is read and
// written. The sum of an exact program takes 8 bytes.
func BenchmarkRelease(b *testing.B) {
	n := numbered(b)
	for _, exact := range []bool{true, false} {
		for _, o := range []plan.Optimizer{{Kind: plan.SGD}, {Kind: plan.Momentum, Momentum: 0.9}, {Kind: plan.Adam, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}} {
			b.Run(fmt.Sprintf("%s/exact=%v", o.Kind, exact), func(b *testing.B) {
				program := bare([]int{n})
				program.Exact = exact
				m := machineOf(b, program, o).(*Executable)
				now := plan.Release{Source: noise.NewSeeded(1), Sigma: []float64{plan.Bound}, Unit: []float64{1. / plan.Bound}, Scale: 1, Optimizer: o, Rate: 0.01}
				numbers := 2 + o.Slots()
				if exact {
					numbers++
				}
				b.SetBytes(together * 8 * int64(numbers) * int64(n))
				for b.Loop() {
					for range together {
						now.Lot, now.Step = now.Lot+1, now.Step+1
						if err := m.Release(&now); err != nil {
							b.Fatal(err)
						}
					}
					if err := m.device.Synchronize(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkPush measures a microbatch of a data set on the GPU; host-ns/op is the host's
// time before it waits.
func BenchmarkPush(b *testing.B) {
	device(b)
	l := newLots(b, streamed()[0])
	m := machineOf(b, l.program, plan.Optimizer{Kind: plan.SGD}).(*Executable)
	if err := l.clipper.BeginLot(0); err != nil {
		b.Fatal(err)
	}
	formula, _ := l.clipper.Formula()
	if err := m.Configure(formula, 40, l.read); err != nil {
		b.Fatal(err)
	}
	rows := l.rows[0][0]
	var host time.Duration
	for b.Loop() {
		start := time.Now()
		l.put(b, m, rows, m.Rows(), 0)
		if err := m.Push(len(rows), l.clipper.Sensitivities()); err != nil {
			b.Fatal(err)
		}
		host += time.Since(start)
		if err := m.device.Synchronize(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(host.Nanoseconds())/float64(b.N), "host-ns/op")
}
