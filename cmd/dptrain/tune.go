package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/selection"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine"
	"github.com/spf13/cobra"
)

// publicTuning is the result of tune on public data.
type publicTuning struct {
	Data  string  `json:"data"`
	Model string  `json:"model"`
	Rows  []trial `json:"rows"` // the best first
	Flags string  `json:"flags"`
}

// trial is a setting and its result.
type trial struct {
	settings.Hyperparameters
	Accuracy *float64 `json:"test_accuracy,omitempty"`
	*rundir.RegressionMetrics
	Flags string `json:"flags"`

	evaluation engine.Evaluation
}

// unusedByTune lists the flags of train that tune refuses.
var unusedByTune = []string{"resume", "config", "preset", "noise", "rate", "stop-at-epsilon", "stop-when", "noise-schedule",
	"metrics-addr", "metrics-remote", "mpi", "show-private", "non-private", "dry-run", "print-config"}

func newTune(term *terminal.Terminal) *cobra.Command {
	flags := &settings.Flags{}
	trials, public, runs := 16, false, "geometric"
	cmd := &cobra.Command{
		Use:     "tune",
		Short:   "Search for clip, learning rate, lot and steps for a budget",
		Long:    helpOf("tune").long,
		Example: helpOf("tune").examples,
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			for _, name := range unusedByTune {
				if flags.OnCommandLine(name) {
					return exitcode.Usagef("--%s has no meaning for tune: drop it; see dptrain tune --help", name)
				}
			}
			if trials < 1 {
				return exitcode.Usagef("--trials %d: give at least 1", trials)
			}
			if err := flags.Resolve(); err != nil {
				return err
			}
			base, err := newSpec(term, flags)
			if err != nil {
				return exitcode.AsUsage(err)
			}
			if base.HasGivenNoise() {
				return exitcode.Usagef("tune finds the noise for --epsilon, and every --group has noise of its own: drop the noise of a group")
			}
			if base.Task.Private && !public {
				return tunePrivate(term, base, trials, runs)
			}
			return tunePublic(term, base, trials)
		},
	}
	f := cmd.Flags()
	flags.Define(f)
	completeChoices(cmd, settings.Choices())
	for _, name := range unusedByTune {
		f.Lookup(name).Hidden = true
	}
	validationNoise := f.Lookup("validation-noise")
	validationNoise.Usage = strings.Replace(validationNoise.Usage, "a twentieth of the budget", "a quarter of the budget of one run", 1)
	f.IntVar(&trials, "trials", trials, "number of settings to try, the given one included; on private data also the mean number of runs")
	f.BoolVar(&public, "public", false, "declare that the data are public: no record in them needs protection")
	f.StringVar(&runs, "runs", runs, "private data: distribution of the number of runs: geometric, logarithmic (costs less, tries less), poisson, or the shape of a truncated negative binomial distribution")
	completeChoices(cmd, map[string][]string{"runs": selection.DistributionNames})
	return cmd
}

// tunePublic tries settings on public data.
func tunePublic(term *terminal.Terminal, base *settings.Spec, trials int) error {
	for _, name := range []string{"out", "validation-split", "validation-noise", "runs", "budget"} {
		if base.Flags.OnCommandLine(name) {
			return exitcode.Usagef("--%s is for private data: on public data, tune shows all trials and keeps no model; drop the flag", name)
		}
	}
	if base.Task.Test == nil {
		return exitcode.Usagef("%s has no test part to compare settings on: name a file with --test", base.Task.Name)
	}
	dir, err := os.MkdirTemp("", "dptrain-tune-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, stop := untilInterrupted()
	defer stop()

	result := publicTuning{Data: base.Task.Name, Model: base.Network.Model}
	for i := range trials {
		label := fmt.Sprintf("trial %d/%d", i+1, trials)
		candidate, err := base.Candidate(i)
		if err != nil {
			return exitcode.AsUsage(err)
		}
		t, err := runTrial(ctx, term, base, candidate, filepath.Join(dir, strconv.Itoa(i)), label)
		if errors.Is(err, context.Canceled) {
			break
		}
		if err != nil {
			return exitcode.AsUsage(err)
		}
		term.Note("%s: %s: %s", label, t.Flags, formatScore(&t.evaluation))
		result.Rows = append(result.Rows, t)
	}
	if len(result.Rows) == 0 {
		return &exitcode.Error{Code: exitcode.Interrupted, Err: errors.New("interrupted before the first trial ended")}
	}
	slices.SortStableFunc(result.Rows, func(a, b trial) int {
		return cmp.Compare(settings.Score(&b.evaluation), settings.Score(&a.evaluation))
	})
	result.Flags = result.Rows[0].Flags
	if err := term.Print(result, result.Flags, result.print); err != nil || len(result.Rows) == trials {
		return err
	}
	return &exitcode.Error{Code: exitcode.Interrupted, Err: fmt.Errorf("interrupted after %d of %d trials: the result is the best of those", len(result.Rows), trials)}
}

// runTrial trains with some settings and keeps only the result.
func runTrial(ctx context.Context, term *terminal.Terminal, base *settings.Spec, flags *settings.Flags, dir, label string) (trial, error) {
	spec, err := base.WithFlags(flags)
	if err != nil {
		return trial{}, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return trial{}, err
	}
	spec.Config.Files.CheckpointFolder, spec.Config.Files.Ledger = "", filepath.Join(dir, rundir.LedgerFile)
	run, err := engine.New(spec.Config)
	if err != nil {
		return trial{}, err
	}
	defer run.Close()
	bar := term.NewProgressBar(spec.Config.Steps)
	defer bar.Hide()
	err = run.Train(ctx, func(p *engine.Progress) error {
		return bar.Update(p.Lot, func() []string { return []string{label} })
	})
	if err != nil {
		return trial{}, err
	}
	parameters, err := run.BorrowParameters()
	if err != nil {
		return trial{}, err
	}
	spec.AdoptProjection(run)
	evaluation, err := spec.EvaluateTest(parameters)
	settings := spec.Hyperparameters()
	t := trial{Hyperparameters: settings, RegressionMetrics: rundir.NewRegressionMetrics(&evaluation),
		Flags: settings.Flags(), evaluation: evaluation}
	if evaluation.Targets == 0 {
		t.Accuracy = &evaluation.Accuracy
	}
	return t, err
}

// formatScore formats the value by which settings are compared.
func formatScore(e *engine.Evaluation) string {
	if e.Targets > 0 {
		return "RMSE " + number.Short(e.RMSE)
	}
	return fmt.Sprintf("%.2f%%", 100*e.Accuracy)
}

func (r *publicTuning) print(w io.Writer) {
	metric := "accuracy"
	if r.Rows[0].RegressionMetrics != nil {
		metric = "error"
	}
	groups := ""
	if len(r.Rows[0].Groups) > 0 {
		groups = "\tgroups\tallocation"
	}
	fmt.Fprintf(w, "%s\tclip\tlr\tlot\tsteps\tnoise%s\n", metric, groups)
	for _, t := range r.Rows {
		if groups != "" {
			groups = "\t" + strings.Join(t.Groups, " ") + "\t" + cmp.Or(t.Allocation, "shares")
		}
		fmt.Fprintf(w, "%s\t%v\t%v\t%d\t%d\t%.4g%s\n", formatScore(&t.evaluation), t.Clip, t.LearningRate, t.Lot, t.Steps, t.NoiseMultiplier, groups)
	}
	fmt.Fprintf(w, "%s\n", strings.Repeat("─", 8))
	fmt.Fprintf(w, "best\t%s\n", r.Flags)
}
