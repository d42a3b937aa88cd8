package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dptrain/dptrain/bench"
	"github.com/dptrain/dptrain/cuda"
)

// program is a training program to time.
type program struct {
	name        string
	script      string     // its name in bench/peers/measure.py; empty for dptrain
	step        bench.Kind // of dptrain
	private     bool
	records     []int    // microbatch sizes to try; 0 is the whole batch
	repeated    bool     // on a CPU, timed again after the others, because the ratios depend on it and the machine's speed drifts
	environment []string // more variables
}

var whole = []int{0}

var programs = []program{
	{name: "dptrain", step: bench.Private, private: true, records: whole, repeated: true},
	{name: "dptrain plain", step: bench.Plain, records: whole, repeated: true},
	{name: "PyTorch", script: "pytorch", records: whole, repeated: true},
	{name: "JAX", script: "jax", records: whole},
	{name: "Opacus hooks", script: "opacus-hooks", private: true, records: whole},
	{name: "Opacus ghost", script: "opacus-ghost", private: true, records: whole},
	{name: "torch.func", script: "torch-func", private: true, records: []int{0, 16}},
	{name: "jax-privacy", script: "jax-privacy", private: true, records: []int{0, 16, 1}},
}

// PyTorch with torch.compile, on a GPU only.
var compiled = program{name: "PyTorch compiled", script: "pytorch-compiled", records: whole}

// variants are private steps of dptrain with another setting, on a GPU only. Their times are compared
// with those of the program dptrain. The last one loads the kernels of -kernels.
var variants = []program{
	{name: "dptrain, float", step: bench.Float, private: true, records: whole},
	{name: "dptrain, own kernels", step: bench.Private, private: true, records: whole, environment: []string{"DPTRAIN_CUBLASLT=none", "DPTRAIN_CUDNN=none"}},
	{name: "dptrain, graph in sequence", step: bench.Private, private: true, records: whole, environment: []string{"DPTRAIN_GRAPH=chain"}},
	{name: "dptrain, separate launches", step: bench.Private, private: true, records: whole, environment: []string{"DPTRAIN_GRAPH=separate"}},
	{name: secondKernels, step: bench.Private, private: true, records: whole},
}

const secondKernels = "dptrain, second kernels"

// programs returns the programs of the table.
func (r results) programs() []program {
	if r.Machine.GPU == "" {
		return programs
	}
	return slices.Insert(slices.Clone(programs), 3, compiled)
}

// measurementOrder returns the order of the measurements of a workload: all programs, then on a CPU the
// repeated ones, and on a GPU the variants. A GPU needs no repetition, because no other process uses it.
func (r results) measurementOrder(kernels string) []program {
	list := slices.Clone(r.programs())
	if r.Machine.GPU == "" {
		for _, p := range programs {
			if p.repeated {
				list = append(list, p)
			}
		}
		return list
	}
	for _, p := range variants {
		if p.name != secondKernels {
			list = append(list, p)
		} else if kernels != "" {
			p.environment = []string{"DPTRAIN_KERNELS=" + kernels}
			list = append(list, p)
		}
	}
	return list
}

// keepFreedMemory makes the allocator keep freed memory. Otherwise page faults dominate the time of
// peers that build a gradient for each record.
var keepFreedMemory = []string{"MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=-1", "MALLOC_TOP_PAD_=67108864"}

// torch.compile starts processes that can outlive their parent; outputTimeout limits the wait for their
// output.
var outputTimeout = 5 * time.Second

// installPeers creates or updates the virtual environment of the peers.
func (c *comparison) installPeers() error {
	if c.venv == "" {
		return nil
	}
	python := c.interpreter()
	if _, err := os.Stat(python); err != nil {
		if err := runWithOutput(exec.Command(c.python, "-m", "venv", c.venv)); err != nil {
			return err
		}
	}
	return runWithOutput(exec.Command(python, "-m", "pip", "install", "--quiet", "--requirement", filepath.Join(c.peers, "requirements.txt")))
}

func (c *comparison) interpreter() string {
	if c.venv == "" {
		return c.python
	}
	return filepath.Join(c.venv, "bin", "python")
}

func runWithOutput(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return nil
}

// measure times a program in a separate process.
func (c *comparison) measure(w bench.Workload, p program, precision cuda.Precision, records int) (m measurement) {
	defer func() {
		m.Workload, m.Program, m.Private, m.Records, m.Precision = w.Name, p.name, p.private, records, precision.String()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	cmd, err := c.command(ctx, w, p, precision, records)
	if err != nil {
		m.Error = err.Error()
		return m
	}
	var stderr bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &stderr, outputTimeout
	text, err := cmd.Output()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		err = json.Unmarshal(text, &m)
	}
	switch {
	case ctx.Err() != nil:
		m.Error = fmt.Sprintf("not complete after %v", c.timeout)
	case err != nil:
		m.Error = strings.TrimSuffix(fmt.Sprintf("%v: %s", err, lastError(stderr.String())), ": ")
	}
	return m
}

// pythonError matches the line with which Python ends a traceback.
var pythonError = regexp.MustCompile(`^[\w.]+(Error|Exception)\b`)

// lastError returns the last line that names an exception, because JAX prints advice after it, or the
// last line if there is none.
func lastError(stderr string) string {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	for _, l := range slices.Backward(lines) {
		if pythonError.MatchString(l) {
			return l
		}
	}
	return lines[len(lines)-1]
}

func (c *comparison) command(ctx context.Context, w bench.Workload, p program, precision cuda.Precision, records int) (*exec.Cmd, error) {
	threads := strconv.Itoa(c.threads)
	if p.script == "" {
		self, err := os.Executable()
		cmd := exec.CommandContext(ctx, self, "-step", w.Name+"/"+string(p.step), "-time", c.time.String(), "-threads", threads,
			"-device", c.device, "-precision", precision.String())
		cmd.Env = append(os.Environ(), p.environment...)
		return cmd, err
	}
	cmd := exec.CommandContext(ctx, c.interpreter(), filepath.Join(c.peers, "measure.py"), p.script, w.Name,
		"--device", c.device, "--precision", precision.String(), "--records", strconv.Itoa(records), "--threads", threads, "--seconds", fmt.Sprint(c.time.Seconds()))
	cmd.Env = append(os.Environ(), append(keepFreedMemory, "PYTHONDONTWRITEBYTECODE=1")...)
	return cmd, nil
}
