//go:build unix

package server

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// cpuTime is the processor time of this process.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkServer_Pairs measures draw-and-return pairs a second of a model of 1,000 weights with
// 256 clients, each on a connection that stays open, over the loopback interface. The clients
// share the processors with the server; cpu-µs/pair is the time of both. DPTRAIN_LOAD_SECONDS sets the time for each k.
func BenchmarkServer_Pairs(b *testing.B) {
	seconds := 5.0
	if text := os.Getenv("DPTRAIN_LOAD_SECONDS"); text != "" {
		seconds, _ = strconv.ParseFloat(text, 64)
	}
	duration := time.Duration(seconds * float64(time.Second))
	for _, stored := range []bool{true, false} {
		for _, k := range []int{1, 5, 20, 100, 1000} {
			if !stored && k != 20 {
				continue
			}
			b.Run(fmt.Sprintf("k=%d,stored=%v", k, stored), func(b *testing.B) {
				d := described("ads", 1000)
				d.Instances, d.FalseAlarms = k, 1e-3
				o := Options{MaxRate: 1e9, MaxShare: 1}
				if stored {
					o.Folder = b.TempDir()
				}
				r := start(b, o, d)
				for range b.N {
					before := cpuTime(b)
					pairs, l := runLoad(b, r, "ads", 256, duration)
					b.ReportMetric(float64(pairs)/duration.Seconds(), "pairs/s")
					b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(pairs), "cpu-µs/pair")
					b.ReportMetric(float64(l[len(l)/2])/1e6, "p50-ms")
					b.ReportMetric(float64(l[len(l)*99/100])/1e6, "p99-ms")
					for _, p := range []problem{problemOutlier, problemTicketExpired} {
						b.ReportMetric(1e3*float64(r.models["ads"].rejects[p.name].Load())/float64(pairs), p.name+"-‰")
					}
				}
			})
		}
	}
}
