package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/training"
	"github.com/dptrain/dptrain/cuda"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/ranks"
)

// trainOnRanks trains together with the other processes of a launch. Rank 0 has the run's directory and
// prints; the other ranks print nothing once they are connected, because rank 0 prints their errors.
func trainOnRanks(term *terminal.Terminal, flags *settings.Flags, launch ranks.Launch) (err error) {
	m, err := joinRanks(flags, launch)
	if err != nil {
		if launch.Rank > 0 && (errors.Is(err, ranks.ErrNotBuilt) || errors.Is(err, cuda.ErrNotBuilt)) {
			term.Err = io.Discard // rank 0 prints it
		}
		return err
	}
	c := m.ranks
	defer func() { m.ranks.Close() }() // place may connect more
	c.SetTimeout(engine.Config{RankTimeout: flags.RankTimeout}.StartupTimeout())
	of := c
	if c.Size() == 1 {
		of = nil
	}
	printed := term.Err
	if c.Rank() > 0 {
		term.Out, term.Err, term.Quiet = io.Discard, io.Discard, true
	}
	defer func() {
		var late *ranks.Unresponsive
		if errors.As(err, &late) {
			err = fmt.Errorf("%w; --rank-timeout sets how long they wait", err)
			if late.Reporter == c.Rank() {
				term.Err = printed
			}
		}
	}()
	if flags.Resume != "" && of != nil {
		remove, err := shareRun(c, &flags.Resume)
		defer remove()
		if err != nil {
			return exitcode.AsUsage(err)
		}
	}
	err = flags.Resolve()
	if err == nil && of != nil {
		err = checkOnRanks(flags)
	}
	if err := ranks.Agree(of, err); err != nil {
		return exitcode.AsUsage(err)
	}
	if of == nil {
		return train(term, flags, membership{})
	}
	if err := m.place(term, flags); err != nil {
		return exitcode.AsUsage(err)
	}
	if m.device == "cpu" { // a GPU keeps the whole data set in its memory
		flags.Rank, flags.Ranks = c.Rank(), c.Size()
	}
	if c.Rank() == 0 {
		return train(term, flags, m)
	}
	return follow(term, flags, m)
}

// joinRanks connects this process with the others of a launch.
func joinRanks(flags *settings.Flags, launch ranks.Launch) (m membership, err error) {
	if launch.Size > 1 && !launch.MPI {
		return joinDevices(flags, launch)
	}
	m.ranks, err = ranks.Open(flags.MPI)
	if err != nil && flags.MPI != "" {
		err = fmt.Errorf("--mpi %s: %w", flags.MPI, err)
	}
	return m, exitcode.AsUsage(err)
}

// joinDevices connects the processes of a launch without MPI by the NCCL of their GPUs.
func joinDevices(flags *settings.Flags, launch ranks.Launch) (m membership, err error) {
	started := fmt.Sprintf("NCCL connects %d processes with a GPU each", launch.Size)
	ordinal := launch.Local
	switch number, given := strings.CutPrefix(flags.Device.Name, "cuda:"); {
	case given && number != "all":
		if ordinal, err = strconv.Atoi(number); err != nil {
			return m, exitcode.Usagef("--device %s is unknown: use cuda, or cuda:N", flags.Device.Name)
		}
	case !slices.Contains([]string{"", "auto", "cuda", allGPUs}, flags.Device.Name):
		return m, exitcode.Usagef("--device %s: %s; start them with mpirun to train on CPUs", flags.Device.Name, started)
	}
	m.device = fmt.Sprintf("cuda:%d", ordinal)
	if m.ranks, err = cuda.OpenRanks(cuda.Options{Ordinal: ordinal}, launch); err != nil {
		return m, exitcode.AsUsage(fmt.Errorf("%s: %w", started, err))
	}
	return m, nil
}

// checkOnRanks refuses settings with which ranks would read different data.
func checkOnRanks(flags *settings.Flags) error {
	switch {
	case flags.Data == data.StandardInput:
		return exitcode.Usagef("--data %s on several ranks: only one of them has the standard input; give a file that all of them can read", flags.Data)
	case flags.Given("split") && !flags.Given("split-seed"):
		return exitcode.Usagef("--split on several ranks needs --split-seed, so that all of them divide the rows in the same way")
	}
	return nil
}

// follow trains as a rank other than 0. It agrees with rank 0 on each step of train.
func follow(term *terminal.Terminal, flags *settings.Flags, m membership) error {
	c := m.ranks
	spec, err := newSpec(term, flags)
	if err := ranks.Agree(c, err); err != nil {
		return exitcode.AsUsage(err)
	}
	m.join(spec, flags)
	if err := ranks.Agree(c, nil); err != nil { // rank 0 opens the run's directory
		return exitcode.AsUsage(err)
	}
	ctx, stop := untilInterrupted() // as rank 0 does
	defer stop()
	run, err := training.Follow(spec)
	if err := ranks.Agree(c, err); err != nil {
		return exitcode.AsUsage(err)
	}
	defer run.Close()
	for _, what := range []string{"budget", "progress"} { // rank 0 draws from a budget and opens its reports
		if err := ranks.Agree(c, nil); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	observe, free := training.Assist(spec, run)
	defer free()
	err = run.Train(ctx, observe)
	if endsByFilter(spec, run, err) {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return &exitcode.Error{Code: exitcode.Interrupted, Err: err}
	}
	return exitcode.AsFailure(err)
}

// shareRun gives every rank the files of a run to resume that rank 0 has, so that the other hosts need not
// see its directory: it replaces dir by a temporary copy, which remove deletes.
func shareRun(c ranks.Communicator, dir *string) (remove func(), err error) {
	remove = func() {}
	var files bytes.Buffer
	if c.Rank() == 0 {
		err = encodeRun(&files, *dir)
	}
	if err := ranks.Agree(c, err); err != nil {
		return remove, err
	}
	all, err := ranks.BroadcastAll(c, files.Bytes())
	if err != nil || c.Rank() == 0 {
		return remove, err
	}
	copied, err := os.MkdirTemp("", "dptrain-rank")
	if err != nil {
		return remove, err
	}
	*dir = copied
	return func() { os.RemoveAll(copied) }, decodeRun(all, copied)
}

// encodeRun writes the files that a resumed run reads.
func encodeRun(to io.Writer, dir string) error {
	names := []string{rundir.ConfigFile, rundir.SummaryFile, rundir.LedgerFile}
	checkpoints, err := os.ReadDir(filepath.Join(dir, rundir.CheckpointDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range checkpoints {
		names = append(names, filepath.Join(rundir.CheckpointDir, e.Name()))
	}
	files := map[string][]byte{}
	for _, name := range names {
		switch content, err := os.ReadFile(filepath.Join(dir, name)); {
		case err == nil:
			files[name] = content
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return gob.NewEncoder(to).Encode(files)
}

// decodeRun writes the files of encodeRun to a folder.
func decodeRun(encoded []byte, dir string) error {
	var files map[string][]byte
	if err := gob.NewDecoder(bytes.NewReader(encoded)).Decode(&files); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, rundir.CheckpointDir), 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
