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
	"github.com/dptrain/dptrain/cuda"
)

// printStep times a step of dptrain with the method of bench/peers/measure.py and prints the result in
// the same format.
func (c *comparison) printStep(text string) error {
	name, kind, _ := strings.Cut(text, "/")
	list := bench.Workloads()
	i := slices.IndexFunc(list, func(w bench.Workload) bool { return w.Name == name })
	if i < 0 || !slices.Contains(bench.Kinds, bench.Kind(kind)) {
		return fmt.Errorf("-step %s must have the form WORKLOAD/private, WORKLOAD/float or WORKLOAD/plain", text)
	}
	runtime.GOMAXPROCS(c.threads)
	operations, err := list[i].FloatingPointOperations()
	if err != nil {
		return err
	}
	host := bench.DeviceConfig{GPU: c.device == "cuda", Precision: c.precisions[0], Threads: c.threads}
	step, err := bench.NewStep(list[i], bench.Kind(kind), host)
	if err != nil {
		return err
	}
	defer step.Close()
	m := measurement{Versions: map[string]string{"go": runtime.Version()}}
	if !host.GPU {
		m.Peak = bench.Peak(c.threads)
	} else {
		for what, library := range map[string]func(int) (string, error){"products": cuda.ProductLibrary, "convolutions": cuda.ConvolutionLibrary} {
			if name, err := library(0); err == nil {
				m.Versions["dptrain's "+what], _, _ = strings.Cut(name, " (")
			}
		}
	}
	if _, err = c.timeGroups(step, 2, c.time/3); err != nil {
		return err
	}
	times, err := c.timeGroups(step, 5, c.time)
	if err != nil {
		return err
	}
	m.Memory = readMemory("/proc/self/status", "VmHWM:")
	if host.GPU {
		taken, err := cuda.AllocatedMemory(0) // without code and contexts, as for the peers
		if err != nil {
			return err
		}
		m.Memory = float64(taken) / 1e6
	} else {
		m.Peak = max(m.Peak, bench.Peak(c.threads))
	}
	slices.Sort(times)
	half := len(times) / 2
	m.Median = 1e3 * (times[half] + times[len(times)-1-half]) / 2
	m.Best, m.Steps = 1e3*times[0], c.stepsPerGroup()*len(times)
	m.Rate = operations / m.Median / 1e6
	return json.NewEncoder(os.Stdout).Encode(m)
}

// stepsPerGroup returns the number of steps that are started before a wait for their end.
func (c *comparison) stepsPerGroup() int {
	if c.device == "cuda" {
		return 10
	}
	return 1
}

// timeGroups times groups of steps, in seconds per step. It runs at least minGroups groups and at
// least for the given duration.
func (c *comparison) timeGroups(step *bench.Step, minGroups int, duration time.Duration) (times []float64, err error) {
	for end := time.Now().Add(duration); len(times) < minGroups || time.Now().Before(end); {
		start := time.Now()
		for range c.stepsPerGroup() {
			if err := step.Run(); err != nil {
				return nil, err
			}
		}
		if err := step.Wait(); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start).Seconds()/float64(c.stepsPerGroup()))
	}
	return times, nil
}

// readMemory reads a value in kB from a file in /proc and returns it in megabytes (10⁶ bytes). It
// returns 0 on systems other than Linux.
func readMemory(file, line string) float64 {
	text, _ := os.ReadFile(file)
	for l := range strings.Lines(string(text)) {
		if fields := strings.Fields(l); len(fields) > 1 && fields[0] == line {
			n, _ := strconv.ParseFloat(fields[1], 64)
			return n * 1024 / 1e6
		}
	}
	return 0
}
