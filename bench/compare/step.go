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
	host := bench.Host{GPU: c.device == "cuda", Precision: c.precisions[0], Threads: c.threads}
	step, err := bench.NewStep(list[i], kind == "private", host)
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
	if _, err = c.repeat(step, 2, c.time/3); err != nil {
		return err
	}
	times, err := c.repeat(step, 5, c.time)
	if err != nil {
		return err
	}
	m.Memory = memory("/proc/self/status", "VmHWM:")
	if host.GPU {
		taken, err := cuda.AllocatedMemory(0) // as the peers count: without code and contexts
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
	m.Best, m.Steps = 1e3*times[0], c.group()*len(times)
	m.Rate = operations / m.Median / 1e6
	return json.NewEncoder(os.Stdout).Encode(m)
}

// group is how many steps are sent before their end is waited for.
func (c *comparison) group() int {
	if c.device == "cuda" {
		return 10
	}
	return 1
}

// repeat times groups of steps, in seconds a step: at least so many groups, and
// for at least so long.
func (c *comparison) repeat(step *bench.Step, least int, long time.Duration) (times []float64, err error) {
	for end := time.Now().Add(long); len(times) < least || time.Now().Before(end); {
		start := time.Now()
		for range c.group() {
			if err := step.Run(); err != nil {
				return nil, err
			}
		}
		if err := step.Wait(); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start).Seconds()/float64(c.group()))
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
