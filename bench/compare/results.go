package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/bench"
	"github.com/dptrain/dptrain/cuda"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// results is the content of a result file, such as cpu.json.
type results struct {
	Machine      machine           `json:"machine"`
	Date         string            `json:"date"`
	Seconds      float64           `json:"seconds"` // duration of each measurement
	Versions     map[string]string `json:"versions"`
	Checks       map[string]string `json:"checks,omitempty"` // other checks and their outcomes
	Measurements []measurement     `json:"measurements"`
}

type machine struct {
	CPU          string  `json:"cpu"`
	Processors   int     `json:"processors"`
	Threads      int     `json:"threads"` // per program
	Memory       float64 `json:"memory_mb"`
	System       string  `json:"system"`
	Instructions string  `json:"instructions"` // chosen by dptrain
	Peak         float64 `json:"peak_gflops"`  // fused multiply-adds, best of the run
	GPU          string  `json:"gpu,omitempty"`
}

// fileName returns the name of the result files without extension: cpu, or gpu- and the card's name.
func (m machine) fileName() string {
	if m.GPU == "" {
		return "cpu"
	}
	return "gpu-" + regexp.MustCompile("[^a-z0-9]+").ReplaceAllString(strings.ToLower(m.GPU), "-")
}

// machine describes the machine that is measured.
func (c *comparison) machine() (machine, error) {
	m := thisMachine(c.threads)
	if c.device != "cuda" {
		return m, nil
	}
	gpus, err := cuda.Devices()
	if err != nil {
		return m, err
	}
	if len(gpus) == 0 {
		return m, errors.New("-device cuda: no NVIDIA driver or GPU was found on this host")
	}
	m.GPU = gpus[0].Name
	return m, nil
}

// measurement is the result of one program on one workload. Times are milliseconds per step.
type measurement struct {
	Workload  string            `json:"workload"`
	Program   string            `json:"program"`
	Private   bool              `json:"private"`
	Records   int               `json:"records"` // microbatch; 0: the whole batch
	Precision string            `json:"precision"`
	Median    float64           `json:"median_ms"`
	Best      float64           `json:"best_ms"`
	Steps     int               `json:"steps"`
	Memory    float64           `json:"peak_mb"` // of the process, or on the GPU
	Rate      float64           `json:"gflops,omitempty"`
	Peak      float64           `json:"peak_gflops,omitempty"`
	Versions  map[string]string `json:"versions,omitempty"`
	Error     string            `json:"error,omitempty"`
	Build     string            `json:"build,omitempty"` // on a GPU: identifies the program compare
	Tries     int               `json:"tries,omitempty"` // of this build, if all failed
}

func (m measurement) String() string {
	if m.Error != "" {
		return m.Error
	}
	return fmt.Sprintf("%8.2f ms (best %.2f of %d), %.0f MB", m.Median, m.Best, m.Steps, m.Memory)
}

// sortKey orders measurements by workload, precision and program.
func (r results) sortKey(m measurement) []int {
	precision, _ := cuda.ParsePrecision(m.Precision)
	return []int{
		slices.IndexFunc(bench.Workloads(), func(w bench.Workload) bool { return w.Name == m.Workload }),
		int(precision),
		slices.IndexFunc(append(slices.Clone(r.programs()), variants...), func(p program) bool { return p.name == m.Program }),
	}
}

// find returns the measurement of this kind, failed or not, nil if there is none.
func (r *results) find(w bench.Workload, p program, precision cuda.Precision, records int) *measurement {
	i := slices.IndexFunc(r.Measurements, func(m measurement) bool {
		return m.Workload == w.Name && m.Program == p.name && m.Precision == precision.String() && m.Records == records
	})
	if i < 0 {
		return nil
	}
	found := r.Measurements[i]
	return &found
}

// isFinal reports whether a measurement need not be repeated: it succeeded, or failed twice with
// this build.
func (m *measurement) isFinal(build string) bool {
	return m != nil && (m.Error == "" || m.Build == build && m.Tries >= 2)
}

// identify adds the build and the number of its tries. before is an earlier measurement of the same kind,
// or nil.
func (m *measurement) identify(build string, before *measurement) {
	m.Build = build
	if m.Error == "" {
		return
	}
	m.Tries = 1
	if before != nil && before.Error != "" && before.Build == build {
		m.Tries = before.Tries + 1
	}
}

// buildID returns the first digits of the hash of this program's file.
func buildID() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(path)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:6]), err
}

// replace adds measurements and deletes older ones of the same workload, program and precision.
func (r *results) replace(row []measurement) {
	r.Measurements = slices.DeleteFunc(r.Measurements, func(old measurement) bool {
		return slices.ContainsFunc(row, func(m measurement) bool {
			return m.Workload == old.Workload && m.Precision == old.Precision && m.Program == old.Program
		})
	})
	for _, m := range row {
		r.add(m)
	}
}

func (r *results) add(m measurement) {
	maps.Copy(r.Versions, m.Versions)
	m.Versions = nil
	r.Machine.Peak = max(r.Machine.Peak, m.Peak)
	r.Measurements = append(r.Measurements, m)
}

func thisMachine(threads int) machine {
	m := machine{CPU: runtime.GOARCH, Processors: runtime.NumCPU(), Threads: threads, Instructions: simd.ISA(),
		Memory: readMemory("/proc/meminfo", "MemTotal:"), System: runtime.GOOS + "/" + runtime.GOARCH}
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			m.CPU = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
			break
		}
	}
	return m
}
