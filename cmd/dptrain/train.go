package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/training"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/ranks"
	"github.com/spf13/cobra"
)

func newTrain(term *terminal.Terminal) *cobra.Command {
	flags := &settings.Flags{}
	cmd := &cobra.Command{
		Use:     "train",
		Short:   "Train a private model",
		Long:    helpOf("train").long,
		Example: helpOf("train").examples,
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			launch, err := ranks.Launched()
			switch {
			case err != nil:
				return exitcode.AsUsage(err)
			case launch.Rank > 0 && (flags.PrintConfig || flags.DryRun):
				return nil // rank 0 prints
			case (launch.Size > 1 || flags.MPI != "") && !flags.PrintConfig && !flags.DryRun:
				return trainOnRanks(term, flags, launch)
			}
			if err := flags.Resolve(); err != nil {
				return err
			}
			switch {
			case flags.PrintConfig && term.JSON:
				return term.Print(flags.Values(), "", nil)
			case flags.PrintConfig:
				return flags.PrintYAML(term.Out)
			case flags.DryRun:
				return dryRun(term, flags)
			case flags.Device.Name == allGPUs:
				return trainOnAllGPUs(term, flags)
			}
			return train(term, flags, membership{})
		},
	}
	flags.Define(cmd.Flags())
	completeChoices(cmd, settings.Choices())
	return cmd
}

// readData reads a data set, which can be the standard input, and notes it if that takes long.
func readData(term *terminal.Terminal, name string, options data.Options) (*data.Task, error) {
	if name == data.StandardInput && term.HasInput() {
		options.Input = term.In
	}
	return terminal.Await(term, "Reading "+name, func() (*data.Task, error) { return data.Open(name, options) })
}

// newSpec reads the data and derives the specification of a run.
func newSpec(term *terminal.Terminal, flags *settings.Flags) (*settings.Spec, error) {
	spec, err := deriveSpec(term, flags)
	return spec, flags.InFile(err)
}

func deriveSpec(term *terminal.Terminal, flags *settings.Flags) (*settings.Spec, error) {
	options, err := flags.DataOptions()
	if err != nil {
		return nil, err
	}
	task, err := readData(term, flags.Data, options)
	if err != nil {
		return nil, err
	}
	if err := flags.SplitData(task); err != nil {
		return nil, err
	}
	spec, err := settings.New(flags, task)
	if err != nil {
		return nil, err
	}
	if spec, err = terminal.Await(term, "Calibrating the noise", func() (*settings.Spec, error) { return spec, spec.Calibrate() }); err != nil {
		return nil, err
	}
	spec.SchemaFindings, err = compareTestFile(term, spec)
	return spec, err
}

// train runs one training from the data to the run's files, on several ranks as rank 0.
func train(term *terminal.Terminal, flags *settings.Flags, m membership) error {
	started := time.Now()
	spec, err := newSpec(term, flags)
	if err = ranks.Agree(m.ranks, err); err != nil {
		return exitcode.AsUsage(err)
	}
	m.join(spec, flags)
	err = runSpec(term, spec, started)
	if !exitcode.DiskFull(err) {
		return err
	}
	if _, missing := os.Stat(filepath.Join(flags.Out, rundir.ConfigFile)); missing != nil {
		return fmt.Errorf("%w; free some space and start again", err)
	}
	return fmt.Errorf("%w; free some space and continue with dptrain train --resume %s", err, rundir.ShellQuote(flags.Out))
}

func runSpec(term *terminal.Terminal, spec *settings.Spec, started time.Time) error {
	c := spec.Config.Ranks
	opened, err := openRun(spec)
	defer opened.Close()
	if err := ranks.Agree(c, err); err != nil {
		return exitcode.AsUsage(err)
	}
	ctx, stop := untilInterrupted() // before the ledger exists, so that an interrupt leaves a run that can be resumed
	defer stop()
	run, err := training.Start(spec)
	if err := ranks.Agree(c, err); err != nil {
		return exitcode.AsUsage(spec.Flags.InFile(err))
	}
	if err := ranks.Agree(c, opened.draw.Draw(run, spec.Config.Steps)); err != nil {
		return exitcode.AsUsage(errors.Join(err, run.Close()))
	}
	announce(term, spec, run)
	return exitcode.AsFailure(trainRun(ctx, term, spec, run, opened, started))
}

// openedRun is what a run needs in addition to its data.
type openedRun struct {
	server *training.MetricsServer
	draw   *training.BudgetDraw
	unlock func() // its directory
}

// Close closes what was opened.
func (o openedRun) Close() {
	if o.unlock != nil {
		o.unlock()
	}
	o.draw.Close()
	o.server.Close()
}

// openRun opens what a run needs in addition to its data. What it returns is closed also after an error.
func openRun(spec *settings.Spec) (o openedRun, err error) {
	if o.server, err = training.ServeMetrics(spec.Flags.MetricsAddr, spec.Flags.MetricsRemote); err != nil {
		return o, err
	}
	if o.draw, err = training.OpenBudget(spec); err != nil {
		return o, err
	}
	open := rundir.Create
	if spec.Flags.Resume != "" {
		open = rundir.Reopen
	}
	o.unlock, err = open(spec.Flags.Out)
	return o, err
}

// announce describes the run before it starts.
func announce(term *terminal.Terminal, spec *settings.Spec, run *engine.Run) {
	d, c := run.Describe(), &spec.Config
	term.Note("Training %s (%d weights) on %s: %d records, %s of about %.0f.", spec.Network.Model, weightCount(d), spec.Task.Name, d.Records, number.Plural(c.Steps, "lot"), d.ExpectedLot)
	if rules := spec.Flags.ByRule(); len(rules) > 0 {
		term.Note("Chosen by rule from public numbers: %s; --dry-run shows the values, and docs/defaults.md the rules.", strings.Join(rules, ", "))
	}
	if n := c.Projection.Directions; n > 0 && run.Directions() == nil {
		term.Note("Before the first lot, the run releases %s of the features once.", number.Plural(n, "principal direction"))
	}
	if note := spec.Network.StartNote(); note != "" {
		term.Note("Starting from %s.", note)
	}
	announceSchema(term, spec)
	warnAboutRun(term, spec, run)
	if blank := data.Blank(spec.Task.Train); spec.Flags.ShowPrivate && blank != nil {
		count := 0
		for _, b := range blank {
			if b {
				count++
			}
		}
		term.Note("PRIVATE, do not publish: %d of %d training examples cannot be read and are blank; --on-bad-row fail names the first.", count, len(blank))
	}
}

// warnAboutRun prints every reason not to rely on a run or on its guarantee.
func warnAboutRun(term *terminal.Terminal, spec *settings.Spec, run *engine.Run) {
	d, c := run.Describe(), &spec.Config
	switch {
	case c.Mechanism.NonPrivate:
		term.Warn("NOT PRIVATE: no clipping, no noise, ε = ∞; the weights can reveal any record")
	case !d.Secure:
		term.Warn("%s", insecureWarning)
	}
	if !c.Mechanism.NonPrivate && d.Arithmetic == engine.FloatArithmetic {
		term.Warn("arithmetic is float: the guarantee is proved over the reals and does not cover the rounding of sums and noise; for exact arithmetic drop --arithmetic float")
	}
	if d.Warning != "" {
		term.Warn("%s", d.Warning)
	}
	if planned, err := run.PlannedEpsilon(); err == nil && !c.Mechanism.NonPrivate {
		warnAboutEpsilon(term, planned)
	}
	warnAboutDelta(term, c.Budget.Delta, spec.Records)
	if spec.Stop != nil && spec.Stop.OnTest {
		term.Warn("--stop-when %s reads the test data: this costs no budget because they are public, and no guarantee covers them; the end depends on released weights, so ε is that of the whole plan; the test results of such a run are too optimistic, so measure again on other data before you publish them", spec.Stop.Text)
	}
	if spec.Task.Test == nil && c.Validation.Set == nil {
		term.Warn("there are no test data and no records are held out, so nothing shows what the model learns; give --test, --split or --validation-split")
	}
}

// trainRun trains a run and writes its files.
func trainRun(ctx context.Context, term *terminal.Terminal, spec *settings.Spec, run *engine.Run,
	opened openedRun, started time.Time) error {
	progress, err := training.NewProgress(term, spec, run, opened.server)
	if err := ranks.Agree(spec.Config.Ranks, err); err != nil {
		run.Close()
		return err
	}
	defer progress.Close()
	ended := run.Train(ctx, progress.Observe)
	progress.End()
	if endsByFilter(spec, run, ended) {
		ended = nil
	}
	var validation *rundir.Validation
	if ended == nil {
		validation, ended = training.Validate(term, spec, run, progress.NewLots())
	}
	summary, err := finish(progress, validation, ended, started)
	planned := spec.Config.Steps
	if ended != nil {
		if summary != nil {
			noteEarlyEnd(term, summary)
		}
		switch {
		case !errors.Is(ended, context.Canceled):
			ended = fmt.Errorf("training stopped: %w%s", ended, ledgerHint(&spec.Config))
		case err != nil:
			return err
		default:
			ended = &exitcode.Error{Code: exitcode.Interrupted, Err: fmt.Errorf("interrupted after %d of %d lots; all of them are saved: continue with dptrain train --resume %s", summary.Steps, planned, rundir.ShellQuote(summary.Out))}
		}
		if term.JSON && err == nil {
			ended = errors.Join(ended, term.Print(summary, "", nil))
		}
		return ended
	}
	if err != nil {
		return err
	}
	if err := opened.draw.Settle(spec.Flags.ProjectBudget, float64(summary.Epsilon)); err != nil {
		return err
	}
	switch {
	case summary.Stopped:
		term.Note("--stop-when %s ended the run after %d of %d lots.", summary.StopWhen, summary.Steps, planned)
		noteEarlyEnd(term, summary)
	case summary.Steps < planned:
		term.Note("The budget ended the run after %d of %d lots.", summary.Steps, planned)
	}
	if summary.NoiseSchedule != "" && !summary.Stopped {
		noteEarlyEnd(term, summary)
	}
	return printSummary(term, summary, spec.Flags.DataDir)
}

// endsByFilter reports whether a run ended because the filter of its --noise-schedule admits no more lots of the last
// noise.
func endsByFilter(spec *settings.Spec, run *engine.Run, ended error) bool {
	return spec.NoiseRules != nil && errors.Is(ended, engine.ErrBudget) && run.StepsDone() > 0
}

// noteEarlyEnd states the guarantee of a run that ended before its plan.
func noteEarlyEnd(term *terminal.Terminal, s *rundir.Summary) {
	if s.PlannedEpsilon > 0 {
		term.Note("%s.", describeEarlyEnd(s))
	}
}

// describeEarlyEnd explains the ε of a run that ended before its plan.
func describeEarlyEnd(s *rundir.Summary) string {
	if s.NoiseSchedule != "" {
		return fmt.Sprintf("ε = %s, which a filter of order %s enforced: released metrics chose the noise, and could choose the end; the same lots with noise fixed beforehand cost ε = %s",
			number.RoundUp(float64(s.PlannedEpsilon)), number.Short(s.FilterOrder), number.RoundUp(float64(s.SpentEpsilon)))
	}
	return fmt.Sprintf("ε = %s, the cost of the whole plan of %s: a run that ends early may end because of what it released; the releases alone cost ε = %s",
		number.RoundUp(float64(s.PlannedEpsilon)), number.Plural(s.PlannedSteps, "lot"), number.RoundUp(float64(s.SpentEpsilon)))
}

// finish writes the files of a run, its report included. ended is the error that ended the
// run before its plan.
func finish(p *training.Progress, validation *rundir.Validation, ended error, started time.Time) (*rundir.Summary, error) {
	build := currentBuild()
	summary, err := training.Finish(p, validation, ended, started, training.Build{Version: build.Version, Platform: build.Platform})
	if err != nil {
		return nil, err
	}
	if _, _, err := writeReport(summary.Out); err != nil {
		return nil, fmt.Errorf("the run is saved in %s, but its report is not: %w", summary.Out, err)
	}
	return summary, nil
}

// ledgerHint names the file in which a run that failed recorded its cost.
func ledgerHint(c *engine.Config) string {
	if c.Mechanism.NonPrivate {
		return ""
	}
	if _, err := os.Stat(c.Files.Ledger); errors.Is(err, os.ErrNotExist) {
		return fmt.Sprintf("; the ledger %s, which recorded the cost, is missing", c.Files.Ledger)
	}
	return fmt.Sprintf("; the ledger %s states the cost so far", c.Files.Ledger)
}

// untilInterrupted returns a context that the first of interruptSignals cancels. The second
// signal ends the process at once; the ledger then still states the whole cost.
func untilInterrupted() (ctx context.Context, stop func()) {
	ctx, stop = signal.NotifyContext(context.Background(), interruptSignals()...)
	context.AfterFunc(ctx, func() {
		// When a terminal closes, both the shell and the system send SIGHUP.
		signal.Notify(make(chan os.Signal), syscall.SIGHUP)
		stop()
	})
	return ctx, stop
}

// interruptSignals ask for an end with everything saved: Ctrl-C, SIGTERM and, unless the
// process was started by nohup, the closing of the terminal.
func interruptSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}
