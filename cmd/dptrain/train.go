package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

func newTrain(term *terminal.Terminal) *cobra.Command {
	set := &settings{}
	cmd := &cobra.Command{
		Use:   "train",
		Short: "Train a private model",
		Long: `Train a network with DP-SGD: every record's gradient is clipped, the sum of a lot
is noised, and what it cost is written to a ledger before it is released.

Without flags it trains a small network on digits that the program draws itself,
to ε = 2.`,
		Example: `  dptrain train
  dptrain train --epsilon 1 --epochs 20 --out runs/tight
  dptrain train --model mlp:256 --dry-run
  dptrain train --preset tfp-mnist --data-dir ~/mnist
  dptrain train --project 60 --model mlp:256
  dptrain train --data people.csv --test more.csv --label income --classes low,high \
      --bounds age=0:120,hours=0:99 --vocabulary 'sex=Female|Male' --model mlp:64
  dptrain train --data people.csv --test more.csv --target hours \
      --bounds age=0:120,hours=0:99 --vocabulary 'sex=Female|Male' --ignore income
  dptrain train --data remarks --model lstm:32
  dptrain train --data letters.jsonl --text body --tokens bytes --length 200 \
      --label mood --classes low,high --ignore date --record user:writer --model gru:64
  dptrain train --data book.txt --tokens bytes --length 64 --model transformer:tied
  dptrain train --non-private`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := set.complete(cmd); err != nil {
				return err
			}
			if set.printConfig && term.JSON {
				return term.Print(set.values(), "", nil)
			}
			if set.printConfig {
				return set.print(term.Out)
			}
			if set.dryRun {
				return previewRun(term, set)
			}
			return train(term, set)
		},
	}
	set.flags(cmd)
	return cmd
}

// train runs one training from data to files.
func train(term *terminal.Terminal, set *settings) error {
	began := time.Now()
	job, err := set.job(term)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	return job.afterwards(startRun(term, job, began))
}

// afterwards says what to do where the disk was full.
func (j *job) afterwards(err error) error {
	if !exitcode.DiskFull(err) {
		return err
	}
	if _, gone := os.Stat(filepath.Join(j.out, rundir.ConfigFile)); gone != nil {
		return fmt.Errorf("%w; make room and begin again", err)
	}
	return fmt.Errorf("%w; make room and go on with dptrain train --resume %s", err, rundir.ShellQuote(j.out))
}

func startRun(term *terminal.Terminal, job *job, began time.Time) error {
	exporter, err := answerScrapes(job.set.metricsAddr)
	if err != nil {
		return err
	}
	defer exporter.close()
	release, err := job.lock()
	if err != nil {
		return exitcode.AsUsage(err)
	}
	defer release()
	run, err := job.begin()
	if err != nil {
		return exitcode.AsUsage(err)
	}
	announce(term, job, run)
	return exitcode.AsFailure(followRun(term, job, run, exporter, began))
}

// follow trains a run that has begun, and writes its files.
func followRun(term *terminal.Terminal, job *job, run *engine.Run, exporter *exporter, began time.Time) error {
	ctx, stop := untilInterrupted()
	defer stop()
	watch, err := newWatch(term, job, run)
	if err != nil {
		run.Close()
		return err
	}
	defer watch.close()
	watch.exporter = exporter
	trained := run.Train(ctx, watch.observe)
	watch.interrupted = errors.Is(trained, context.Canceled)
	watch.done()
	var held *validated
	if trained == nil {
		if held, err = validate(term, job, run, run.StepsDone()-watch.first); err != nil {
			run.Close()
			return err
		}
	}
	result, err := finishRun(term, watch, held, time.Since(began))
	switch {
	case trained != nil && !watch.interrupted:
		return fmt.Errorf("training stopped: %w%s", trained, job.whereSpent())
	case err != nil:
		return err
	case watch.interrupted:
		err = &exitcode.Error{Code: exitcode.Interrupted, Err: fmt.Errorf("interrupted after %d of %d lots, all of them saved: go on with dptrain train --resume %s", result.Steps, job.config.Steps, rundir.ShellQuote(job.out))}
		if term.JSON {
			err = errors.Join(err, term.Print(result, "", nil))
		}
		return err
	}
	if result.Steps < job.config.Steps {
		term.Note("The budget ended the run after %d of %d lots.", result.Steps, job.config.Steps)
	}
	return term.Print(result, result.bare(), result.print)
}

// whereSpent says where to read what a run has spent that stopped.
func (j *job) whereSpent() string {
	if j.config.Mechanism.NonPrivate {
		return ""
	}
	if _, err := os.Stat(j.config.Files.Ledger); errors.Is(err, os.ErrNotExist) {
		return fmt.Sprintf("; the ledger %s, which said what was spent, is gone", j.config.Files.Ledger)
	}
	return fmt.Sprintf("; the ledger %s says what was spent", j.config.Files.Ledger)
}

// untilInterrupted is a context that the first Ctrl-C ends, or another of endings. The
// next ends the process, whatever it does: what was spent is in the ledger.
func untilInterrupted() (ctx context.Context, stop func()) {
	ctx, stop = signal.NotifyContext(context.Background(), endings()...)
	context.AfterFunc(ctx, func() {
		// The end of a terminal is told more than once, by the shell and by the system.
		signal.Notify(make(chan os.Signal), syscall.SIGHUP)
		stop()
	})
	return ctx, stop
}

// endings are the signals that ask for an end with everything saved: Ctrl-C, SIGTERM and
// the end of the terminal, which a process started by nohup outlives.
func endings() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// lock locks the directory that the run is to be written to.
func (j *job) lock() (release func(), err error) {
	if j.set.resume != "" {
		return rundir.Reopen(j.out)
	}
	return rundir.Create(j.out)
}

// begin makes the run, or takes up one that stopped.
func (j *job) begin() (*engine.Run, error) {
	if j.set.resume != "" {
		run, err := engine.Resume(j.config)
		if err != nil {
			return nil, err
		}
		rundir.RemoveUnfinished(j.out)
		return run, j.set.keep(&j.config)
	}
	rundir.RemoveUnfinished(j.out)
	// A run whose settings are not kept could not be gone on with.
	err := j.set.keep(&j.config)
	var run *engine.Run
	if err == nil {
		run, err = engine.New(j.config)
	}
	if err != nil {
		os.Remove(filepath.Join(j.out, rundir.ConfigFile))
	}
	return run, err
}
