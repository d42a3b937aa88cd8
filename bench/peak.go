package bench

import (
	"runtime"
	"sync"
	"time"

	"github.com/dptrain/dptrain/internal/device/simd"
)

// Peak measures the GFLOP/s of independent fused multiply-adds in registers, summed over the given
// number of threads. It returns the best of ten measurements of a few milliseconds, or 0 if only
// pure Go code is available. 0 threads means one per processor.
func Peak(threads int) float64 {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	const rounds = 1_000_000
	best := 0.0
	for range 10 {
		operations := make([]float64, threads)
		var all sync.WaitGroup
		start := time.Now()
		for i := range threads {
			all.Go(func() { operations[i] = simd.RunFMA(rounds) })
		}
		all.Wait()
		total := 0.0
		for _, n := range operations {
			total += n
		}
		best = max(best, total/time.Since(start).Seconds()/1e9)
	}
	return best
}
