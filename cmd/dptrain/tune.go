package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/flags"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

// tuned is what tune answers.
type tuned struct {
	Data  string  `json:"data"`
	Model string  `json:"model"`
	Rows  []trial `json:"rows"` // the best first
	Flags string  `json:"flags"`
}

// trial is one setting and what it reached.
type trial struct {
	setting
	Accuracy *float64 `json:"test_accuracy,omitempty"`
	*missed
	Flags string `json:"flags"`

	score engine.Evaluation
}

// setting is what is tuned, and the noise that follows from it.
type setting struct {
	Clip         float64 `json:"clip"`
	LearningRate float64 `json:"learning_rate"`
	Lot          int     `json:"lot"`
	Steps        int     `json:"steps"`
	Noise        float64 `json:"noise_multiplier"`
}

func (j *job) setting() setting {
	return setting{j.set.clip, j.set.lr, j.config.Sampling.Lot, j.config.Steps, j.config.Mechanism.NoiseMultiplier}
}

// notTuned are train's flags that tune has no use for.
var notTuned = []string{"resume", "config", "preset", "noise", "rate", "stop-at-epsilon",
	"metrics-addr", "show-private", "non-private", "dry-run", "print-config"}

func newTune(term *terminal.Terminal) *cobra.Command {
	set := &settings{}
	trials, public, runs := 16, false, "geometric"
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Look for clip, learning rate, lot and steps for a budget",
		Long: `Train many times to the same ε, each time with another clip, learning rate, lot and
number of steps, and say which did best. What is given by its flag stays as it is.

On public data, digits or others that --public vouches for, each setting is tried
once and all that was found is shown. The best of many accuracies flatters: measure
again, on other data, what is to be published.

On private data the choice is paid for, by theorems 2 and 6 of Papernot and Steinke
2022: --epsilon covers all runs together and the release of the best one, whose
model --out then holds. How many runs there are is drawn as --runs says, --trials on
average; each draws one of the settings. Their number and what became of the others
stay secret, so nothing of them is shown, and nothing that depends on them should
be: whoever can see how long it takes learns something of it. Runs are compared by
their accuracy on public test data, or on private records that --validation-split
holds out, released with noise that each run pays for.

A --target is predicted the better, the smaller the RMSE on public test data, or the
mean absolute error on private records held out.`,
		Example: `  dptrain tune --model mlp:64 --epsilon 1
  dptrain tune --data mnist --data-dir ~/mnist --public --trials 30 --epochs 10
  dptrain tune --data mnist --data-dir ~/mnist --epsilon 3 --trials 8 --validation-split 0.1`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range notTuned {
				if cmd.Flags().Changed(name) {
					return exitcode.Usagef("--%s: tune has no use for it; see dptrain tune --help", name)
				}
			}
			if trials < 1 {
				return exitcode.Usagef("--trials %d: give at least 1", trials)
			}
			if err := set.complete(cmd); err != nil {
				return err
			}
			base, err := set.job(term)
			if err != nil {
				return exitcode.AsUsage(err)
			}
			if base.task.Private && !public {
				return chooseSettings(term, set, base, trials, runs)
			}
			return tune(term, set, base, trials)
		},
	}
	set.flags(cmd)
	for _, name := range notTuned {
		cmd.Flags().Lookup(name).Hidden = true
	}
	score := cmd.Flags().Lookup("validation-noise")
	score.Usage = strings.Replace(score.Usage, "a twentieth of the budget", "a quarter of what one run may cost", 1)
	cmd.Flags().IntVar(&trials, "trials", trials, "settings to try, train's own among them; on private data also how many runs there are, on average")
	cmd.Flags().BoolVar(&public, "public", false, "the data are public: nobody in them needs protection")
	cmd.Flags().StringVar(&runs, "runs", runs, "private data: how their number is drawn, geometric, logarithmic (costs less, tries less), poisson, or the shape of a truncated negative binomial distribution")
	flags.Complete(cmd, "runs", []string{"geometric", "logarithmic", "poisson"})
	return cmd
}

// tune tries settings on public data.
func tune(term *terminal.Terminal, set *settings, base *job, trials int) error {
	for _, name := range []string{"out", "validation-split", "validation-noise", "runs"} {
		if set.cmd.Flags().Changed(name) {
			return exitcode.Usagef("--%s is for private data: on public data all trials are shown, and none is kept", name)
		}
	}
	if base.task.Test == nil {
		return exitcode.Usagef("%s has no test part to compare settings on", base.task.Name)
	}
	folder, err := os.MkdirTemp("", "dptrain-tune-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	ctx, stop := untilInterrupted()
	defer stop()

	answer := tuned{Data: base.task.Name, Model: base.model}
	for i := range trials {
		one, err := tryOut(term, ctx, base, set.variant(i, base), filepath.Join(folder, strconv.Itoa(i)), fmt.Sprintf("trial %d/%d", i+1, trials))
		if errors.Is(err, context.Canceled) {
			break
		}
		if err != nil {
			return exitcode.AsUsage(err)
		}
		term.Note("trial %d/%d: %s: %s", i+1, trials, one.Flags, meritWords(&one.score))
		answer.Rows = append(answer.Rows, one)
	}
	if len(answer.Rows) == 0 {
		return &exitcode.Error{Code: exitcode.Interrupted, Err: errors.New("interrupted before the first trial ended")}
	}
	slices.SortStableFunc(answer.Rows, func(a, b trial) int { return cmp.Compare(merit(&b.score), merit(&a.score)) })
	best := answer.Rows[0]
	answer.Flags = best.Flags
	if err := term.Print(answer, answer.Flags, answer.print); err != nil || len(answer.Rows) == trials {
		return err
	}
	return &exitcode.Error{Code: exitcode.Interrupted, Err: fmt.Errorf("interrupted after %d of %d trials: the best of those is no more than that", len(answer.Rows), trials)}
}

// variant is the i-th setting to try: the first is train's own; the others are
// spread over the logarithms of what is likely to do, evenly at any number of
// trials, by multiples of the powers of the inverse of the root of x⁵ = x + 1.
func (s *settings) variant(i int, base *job) *settings {
	v := *s
	v.given = maps.Clone(s.given)
	if i == 0 {
		return &v
	}
	const root = 1.1673039782614187
	axis := 0
	spread := func(low, high float64) float64 {
		axis++
		_, part := math.Modf(0.5 + float64(i)*math.Pow(root, -float64(axis)))
		return rounded(low * math.Pow(high/low, part))
	}
	n := float64(engine.RecordCount(base.config.Train, base.config.Records))
	clip, lr, lot, epochs := spread(0.1, 10), spread(0.06*s.lr, 6*s.lr), spread(max(1, n/200), max(1, n/10)), spread(2, 30)
	if !v.given["clip"] {
		v.clip = clip
	}
	if !v.given["lr"] {
		v.lr = lr
	}
	if !v.given["lot"] {
		v.lot, v.given["lot"] = int(lot), true
	}
	if !v.given["steps"] && !v.given["epochs"] {
		v.epochs, v.given["epochs"] = epochs, true
	}
	return &v
}

// rounded keeps two digits of a positive number.
func rounded(x float64) float64 {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 2, 64), 64)
	return x
}

// tryOut trains with some settings, under a name, and keeps nothing but the score.
func tryOut(term *terminal.Terminal, ctx context.Context, base *job, set *settings, folder, name string) (trial, error) {
	j, err := base.with(set)
	if err != nil {
		return trial{}, err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return trial{}, err
	}
	j.config.Files.CheckpointFolder, j.config.Files.Ledger = "", filepath.Join(folder, "ledger.jsonl")
	run, err := engine.New(j.config)
	if err != nil {
		return trial{}, err
	}
	defer run.Close()
	bar := term.NewProgressBar(j.config.Steps)
	defer bar.Hide()
	err = run.Train(ctx, func(p *engine.Progress) error {
		return bar.Update(p.Lot, func() []string { return []string{name} })
	})
	if err != nil {
		return trial{}, err
	}
	parameters, err := run.BorrowParameters()
	if err != nil {
		return trial{}, err
	}
	j.takeDirections(run)
	got, err := score(j, parameters)
	tried := trial{setting: j.setting(), missed: missedOf(&got), Flags: j.flags(), score: got}
	if got.Targets == 0 {
		tried.Accuracy = &got.Accuracy
	}
	return tried, err
}

func (a *tuned) print(w io.Writer) {
	by := "accuracy"
	if a.Rows[0].missed != nil {
		by = "error"
	}
	fmt.Fprintf(w, "%s\tclip\tlr\tlot\tsteps\tnoise\n", by)
	for _, r := range a.Rows {
		fmt.Fprintf(w, "%s\t%v\t%v\t%d\t%d\t%.4g\n", meritWords(&r.score), r.Clip, r.LearningRate, r.Lot, r.Steps, r.Noise)
	}
	fmt.Fprintf(w, "%s\n", strings.Repeat("─", 8))
	fmt.Fprintf(w, "best\t%s\n", a.Flags)
}
