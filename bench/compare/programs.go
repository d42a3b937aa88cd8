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

// program is something that trains.
type program struct {
	name    string
	peer    string // as bench/peers/measure.py knows it; empty for dptrain
	private bool
	records []int // how many records at a time are tried; 0 is the whole batch
	again   bool  // timed once more after the others on a CPU, as ratios stand on it and a machine's speed drifts
}

var programs = []program{
	{"dptrain", "", true, []int{0}, true},
	{"dptrain plain", "", false, []int{0}, true},
	{"PyTorch", "pytorch", false, []int{0}, true},
	{"JAX", "jax", false, []int{0}, false},
	{"Opacus hooks", "opacus-hooks", true, []int{0}, false},
	{"Opacus ghost", "opacus-ghost", true, []int{0}, false},
	{"torch.func", "torch-func", true, []int{0, 16}, false},
	{"jax-privacy", "jax-privacy", true, []int{0, 16, 1}, false},
}

// On a GPU there are also dptrain without cuBLASLt and cuDNN, and PyTorch's step by
// torch.compile, the better one there.
var (
	ownKernels = program{"dptrain, own kernels", "", true, []int{0}, false}
	compiled   = program{"PyTorch compiled", "pytorch-compiled", false, []int{0}, false}
)

// programs are those that are timed on the machine.
func (r results) programs() []program {
	if r.Machine.GPU == "" {
		return programs
	}
	return slices.Insert(slices.Insert(slices.Clone(programs), 3, compiled), 1, ownKernels)
}

// order is how programs are timed on a workload: all, then some again, but for a GPU,
// which is ours alone.
func (r results) order() []program {
	list := r.programs()
	for _, p := range r.programs() {
		if p.again && r.Machine.GPU == "" {
			list = append(list, p)
		}
	}
	return list
}

// Freed memory is kept. Otherwise page faults take most of the time of the peers
// that build a gradient for each record.
var keepMemory = []string{"MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=-1", "MALLOC_TOP_PAD_=67108864"}

// longest is how long one measurement may take in all; torch.compile looks for its kernels
// for most of that, in processes of its own, which may outlive the one that started them:
// what they print is waited for no longer than lingering.
var (
	longest   = 2 * time.Minute
	lingering = 5 * time.Second
)

// install makes the peers' environment, or finds it as it should be.
func (c *comparison) install() error {
	if c.venv == "" {
		return nil
	}
	python := c.interpreter()
	if _, err := os.Stat(python); err != nil {
		if err := talk(exec.Command(c.python, "-m", "venv", c.venv)); err != nil {
			return err
		}
	}
	return talk(exec.Command(python, "-m", "pip", "install", "--quiet", "--requirement", filepath.Join(c.peers, "requirements.txt")))
}

func (c *comparison) interpreter() string {
	if c.venv == "" {
		return c.python
	}
	return filepath.Join(c.venv, "bin", "python")
}

func talk(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return nil
}

// measure runs a program in a process of its own.
func (c *comparison) measure(w bench.Workload, p program, precision cuda.Precision, records int) (m measurement) {
	defer func() {
		m.Workload, m.Program, m.Private, m.Records, m.Precision = w.Name, p.name, p.private, records, precision.String()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	cmd, err := c.command(ctx, w, p, precision, records)
	if err != nil {
		m.Error = err.Error()
		return m
	}
	var complaint bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &complaint, lingering
	text, err := cmd.Output()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		err = json.Unmarshal(text, &m)
	}
	switch {
	case ctx.Err() != nil:
		m.Error = fmt.Sprintf("not done in %v", longest)
	case err != nil:
		m.Error = strings.TrimSuffix(fmt.Sprintf("%v: %s", err, reason(complaint.String())), ": ")
	}
	return m
}

// raised is how Python's last word of an error begins.
var raised = regexp.MustCompile(`^[\w.]+(Error|Exception)\b`)

// reason is the line that says why a program ended: the last that names an error, for
// JAX has advice behind it, else the last.
func reason(complaint string) string {
	lines := strings.Split(strings.TrimSpace(complaint), "\n")
	for _, l := range slices.Backward(lines) {
		if raised.MatchString(l) {
			return l
		}
	}
	return lines[len(lines)-1]
}

func (c *comparison) command(ctx context.Context, w bench.Workload, p program, precision cuda.Precision, records int) (*exec.Cmd, error) {
	threads := strconv.Itoa(c.threads)
	if p.peer == "" {
		self, err := os.Executable()
		kind := "/plain"
		if p.private {
			kind = "/private"
		}
		cmd := exec.CommandContext(ctx, self, "-step", w.Name+kind, "-time", c.time.String(), "-threads", threads,
			"-device", c.device, "-precision", precision.String())
		if p.name == ownKernels.name {
			cmd.Env = append(os.Environ(), "DPTRAIN_CUBLASLT=none", "DPTRAIN_CUDNN=none")
		}
		return cmd, err
	}
	cmd := exec.CommandContext(ctx, c.interpreter(), filepath.Join(c.peers, "measure.py"), p.peer, w.Name,
		"--device", c.device, "--precision", precision.String(), "--records", strconv.Itoa(records), "--threads", threads, "--seconds", fmt.Sprint(c.time.Seconds()))
	cmd.Env = append(os.Environ(), append(keepMemory, "PYTHONDONTWRITEBYTECODE=1")...)
	return cmd, nil
}
