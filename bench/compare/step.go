package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dptrain/dptrain/bench"
)

// printStep times a step of dptrain as bench/peers/measure.py times the peers' and
// prints it in the same form.
func (c *comparison) printStep(text string) error {
	name, kind, _ := strings.Cut(text, "/")
	list := bench.Workloads()
	i := slices.IndexFunc(list, func(w bench.Workload) bool { return w.Name == name })
	if i < 0 || kind != "private" && kind != "plain" {
		return fmt.Errorf("-step %s: WORKLOAD/private or WORKLOAD/plain is needed", text)
	}
	runtime.GOMAXPROCS(c.threads)
	operations, err := list[i].Operations()
	if err != nil {
		return err
	}
	step, err := bench.NewStep(list[i], kind == "private", bench.Host{Threads: c.threads})
	if err != nil {
		return err
	}
	defer step.Close()
	m := measurement{Peak: bench.Peak(c.threads), Versions: map[string]string{"go": runtime.Version()}}
	if _, err = repeat(step, 2, c.time/3); err != nil {
		return err
	}
	times, err := repeat(step, 5, c.time)
	if err != nil {
		return err
	}
	m.Peak = max(m.Peak, bench.Peak(c.threads))
	slices.Sort(times)
	half := len(times) / 2
	m.Median = 1e3 * (times[half] + times[len(times)-1-half]) / 2
	m.Best, m.Steps, m.Memory = 1e3*times[0], len(times), memory("/proc/self/status", "VmHWM:")
	m.Rate = operations / m.Median / 1e6
	return json.NewEncoder(os.Stdout).Encode(m)
}

// repeat times steps in seconds: at least so many, and for at least so long.
func repeat(step *bench.Step, least int, long time.Duration) (times []float64, err error) {
	for end := time.Now().Add(long); len(times) < least || time.Now().Before(end); {
		start := time.Now()
		if err := step.Run(); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start).Seconds())
	}
	return times, nil
}

// memory reads a line of one of Linux's files that counts in kB, in millions of
// bytes; 0 on other systems.
func memory(file, line string) float64 {
	text, _ := os.ReadFile(file)
	for l := range strings.Lines(string(text)) {
		if fields := strings.Fields(l); len(fields) > 1 && fields[0] == line {
			n, _ := strconv.ParseFloat(fields[1], 64)
			return n * 1024 / 1e6
		}
	}
	return 0
}
