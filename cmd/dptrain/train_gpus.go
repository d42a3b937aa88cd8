package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/cuda"
)

// allGPUs is the device that stands for every GPU of this host.
const allGPUs = "cuda:all"

// trainOnAllGPUs starts this program once for each GPU of this host, as torchrun would: NCCL connects the
// processes.
func trainOnAllGPUs(term *terminal.Terminal, flags *settings.Flags) error {
	gpus, err := cuda.Devices()
	switch {
	case err != nil:
		return exitcode.AsUsage(fmt.Errorf("--device %s: %w", allGPUs, err))
	case len(gpus) == 0:
		return exitcode.Usagef("--device %s: this host has no GPU; use --device cpu", allGPUs)
	case len(gpus) == 1:
		flags.Device.Name = gpus[0].String()
		return train(term, flags, membership{})
	}
	if err := checkOnRanks(flags); err != nil {
		return err
	}
	if _, err := cuda.CommunicationLibrary(gpus[0].Ordinal); err != nil {
		return exitcode.AsUsage(fmt.Errorf("--device %s: %w; pip install nvidia-nccl-cu12 installs it", allGPUs, err))
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	at, err := freePort()
	if err != nil {
		return err
	}
	processes := make([]*exec.Cmd, len(gpus))
	run := rand.Text()
	for rank := range processes {
		p := exec.Command(program, os.Args[1:]...)
		p.Env = append(os.Environ(), "RANK="+strconv.Itoa(rank), "LOCAL_RANK="+strconv.Itoa(rank), "WORLD_SIZE="+strconv.Itoa(len(gpus)),
			"MASTER_ADDR=127.0.0.1", "MASTER_PORT="+strconv.Itoa(at), "TORCHELASTIC_USE_AGENT_STORE=", "TORCHELASTIC_RUN_ID="+run)
		p.Stderr = os.Stderr
		if rank == 0 {
			p.Stdout = os.Stdout
		}
		processes[rank] = p
	}
	code, err := runTogether(processes)
	if code != exitcode.Done && err == nil {
		term.Err = io.Discard // a process has printed why
		err = &exitcode.Error{Code: code, Err: errors.New("a process has failed")}
	}
	return err
}

// freePort returns a port of this host at which no program listens.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// lastWords is how long processes have to end after one has failed.
var lastWords = 30 * time.Second

// runTogether runs processes to their end and returns the exit code of the first that fails. An interrupt of the
// terminal reaches all of them; SIGTERM is passed to the first, which agrees with the others to stop.
func runTogether(processes []*exec.Cmd) (code int, err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, interruptSignals()...)
	defer signal.Stop(signals)
	ended := make(chan int)
	started := 0
	kill := func() {
		for _, p := range processes[:started] {
			p.Process.Kill()
		}
	}
	for _, p := range processes {
		if err = p.Start(); err != nil {
			break
		}
		started++
		go func() {
			p.Wait()
			ended <- max(p.ProcessState.ExitCode(), -1)
		}()
	}
	if err != nil {
		kill()
	}
	var late <-chan time.Time
	for running := started; running > 0; {
		select {
		case c := <-ended:
			running--
			if c != exitcode.Done && code == exitcode.Done {
				code, late = c, time.After(lastWords)
			}
		case s := <-signals:
			if s == syscall.SIGTERM {
				processes[0].Process.Signal(s)
			}
		case <-late:
			kill()
			late = nil
		}
	}
	if code < 0 { // a signal has killed it
		code = exitcode.Failed
	}
	return code, err
}
