package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/budget"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/projectbudget"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/selection"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
)

// privateTuning is the result of tune on private data. Everything in it is the outcome of
// the selection, or was fixed before the selection.
type privateTuning struct {
	budget.Guarantee                        // the cost of all runs together
	Data             string                 `json:"data"`
	Model            string                 `json:"model"`
	Best             bestTrial              `json:"best"`
	Flags            string                 `json:"flags"`
	Score            string                 `json:"score"` // what runs are compared by
	Settings         int                    `json:"settings"`
	Runs             selection.Distribution `json:"runs"`
	Unit             string                 `json:"unit"`
	Records          int                    `json:"records"`
	LedgerHead       string                 `json:"ledger_head"`
	Out              string                 `json:"out"`
}

// bestTrial is the best run.
type bestTrial struct {
	settings.Hyperparameters
	Accuracy  *float64 `json:"accuracy,omitempty"`
	MAE       *float64 `json:"validation_mae,omitempty"`
	Deviation float64  `json:"deviation"` // standard deviation of the noise in Accuracy or MAE
	*rundir.RegressionMetrics
}

// tunePrivate selects settings, and the model that they give, on private data. Package
// selection describes the guarantee.
//
// The number of runs is secret. The times of the files would reveal it: each run takes about the
// same time, and the model is written after the last one. So all entries of the directory get the
// time at which the selection started.
func tunePrivate(term *terminal.Terminal, base *settings.Spec, trials int, distribution string) (err error) {
	started := time.Now()
	if err := checkPrivateTuning(base); err != nil {
		return err
	}
	runs, err := selection.ParseDistribution(distribution, trials)
	if err != nil {
		return err
	}
	candidates, err := selection.Candidates(base, trials)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	out := base.Flags.Out
	plan := selection.Ledger{Runs: runs, Delta: base.Config.Budget.Delta, Budget: base.Flags.Epsilon, Score: scoreName(base)}
	guarantee, err := terminal.Await(term, "Calibrating the noise of "+number.Plural(trials, "setting"),
		func() (accountant.Guarantee, error) { return plan.Calibrate(candidates) })
	if err != nil {
		return exitcode.AsUsage(fmt.Errorf("--epsilon %v: %w", plan.Budget, err))
	}
	// A second signal does not end the process at once: the files of the runs must be removed.
	ctx, stop := signal.NotifyContext(context.Background(), interruptSignals()...)
	defer stop()
	project, draw, err := openSelectionBudget(base, guarantee)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	if project != nil {
		defer project.Close()
	}
	release, err := rundir.Create(out)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	defer func() {
		release()
		if failed := rundir.SetTimes(out, started); failed != nil && err == nil {
			err = fmt.Errorf("the times of the files in %s can reveal the secret number of runs, and cannot be changed; publish a copy with other times: %w", out, failed)
		}
	}()
	head, err := plan.Write(out)
	if err != nil {
		return err
	}
	if project != nil {
		draw.Run = plan.Run
		if err := errors.Join(project.Draw(draw), project.Close()); err != nil {
			return err
		}
	}
	warnAboutDelta(term, plan.Delta, base.Records)
	term.Note("Selecting among %s of %s on %s, by %s. The number of runs and their results stay secret, so there is no progress report; this can take long.",
		number.Plural(trials, "setting"), base.Network.Model, base.Task.Name, plan.Score)

	best, index, err := selection.Best(ctx, candidates, runs, filepath.Join(out, rundir.TrialsDir))
	if errors.Is(err, context.Canceled) {
		return &exitcode.Error{Code: exitcode.Interrupted, Err: fmt.Errorf("interrupted: nothing is selected or kept; %s states the budget that stays spent", filepath.Join(out, rundir.SelectionFile))}
	}
	if err != nil {
		return exitcode.AsFailure(err)
	}
	spec := candidates[index]
	spec.Directions = best.Directions
	if err := spec.Save(best.Parameters); err != nil {
		return exitcode.AsFailure(err)
	}
	settings := spec.Hyperparameters()
	result := privateTuning{
		Guarantee: budget.NewGuarantee(guarantee), Data: base.Task.Name, Model: base.Network.Model,
		Best:  bestTrial{settings, best.Accuracy, best.MAE, best.Deviation, best.Test},
		Flags: settings.Flags(), Score: plan.Score, Settings: trials, Runs: runs, Unit: plan.Unit,
		Records: plan.Records, LedgerHead: head, Out: out,
	}
	return term.Print(result, result.Flags, result.print)
}

// openSelectionBudget locks the project budget, if there is one, and checks that it allows the
// selection, which draws once for all its runs.
func openSelectionBudget(base *settings.Spec, g accountant.Guarantee) (*projectbudget.Writer, projectbudget.Draw, error) {
	if base.Flags.ProjectBudget == "" {
		return nil, projectbudget.Draw{}, nil
	}
	what, err := filepath.Abs(base.Flags.Out)
	if err != nil {
		return nil, projectbudget.Draw{}, err
	}
	draw := projectbudget.Draw{Epsilon: g.Epsilon, Delta: g.Delta, Unit: base.Config.Records.Unit(), Adjacency: g.Adjacency, What: what}
	w, err := projectbudget.OpenFor(base.Flags.ProjectBudget, draw)
	return w, draw, err
}

// checkPrivateTuning refuses flags that a selection on private data cannot use.
func checkPrivateTuning(base *settings.Spec) error {
	f := base.Flags
	switch {
	case f.Given("seed"):
		return exitcode.Usagef("--seed cannot be used on private data: anyone who repeats the random numbers learns the results of the other runs; drop the flag")
	case f.OnCommandLine("accountant") && f.Accountant != "rdp":
		return exitcode.Usagef("--accountant %s cannot account for a selection, which needs Rényi divergences: give rdp, or drop the flag", f.Accountant)
	case base.Task.Test == nil && base.Config.Validation.Set == nil:
		return exitcode.Usagef("%s has no test part to compare settings on: hold out private records with --validation-split 0.1; their %s is released with noise", base.Task.Name, base.ValidationMetric())
	}
	return nil
}

// scoreName names the value by which runs are compared. selection.json contains it.
func scoreName(spec *settings.Spec) string {
	heldOut, regression := spec.Config.Validation.Set != nil, spec.Network.Example.Targets > 0
	switch {
	case heldOut && regression:
		return "mean absolute error on private records held out, released with noise"
	case heldOut:
		return "accuracy on private records held out, released with noise"
	case regression:
		return "RMSE on public test data"
	}
	return "accuracy on public test data"
}

func (r privateTuning) print(w io.Writer) {
	fmt.Fprintf(w, "best\t%s\n", r.Flags)
	const optimistic = "; too optimistic, as the best of several"
	switch {
	case r.Best.RegressionMetrics != nil:
		r.Best.RegressionMetrics.Print(w, " on public test examples"+optimistic)
	case r.Best.MAE != nil:
		fmt.Fprintf(w, "MAE\t%s on private records held out, with predictions clipped to the target's bounds; ε includes its cost%s\n", rundir.WithNoise(*r.Best.MAE, r.Best.Deviation), optimistic)
	case r.Best.Deviation > 0:
		fmt.Fprintf(w, "accuracy\t%s on private records held out; ε includes its cost%s\n", rundir.PercentWithNoise(*r.Best.Accuracy, r.Best.Deviation), optimistic)
	default:
		fmt.Fprintf(w, "accuracy\t%.2f%% on public test examples%s\n", 100**r.Best.Accuracy, optimistic)
	}
	fmt.Fprintf(w, "privacy\tε = %s at δ = %s for all runs together, by Rényi divergences\n", number.RoundUp(float64(r.Epsilon)), number.RoundUp(float64(r.Delta)))
	fmt.Fprintf(w, "\tadjacency %s, %s, %d settings, %s\n", r.Adjacency, report.DescribeUnit(r.Unit), r.Settings, r.Runs)
	fmt.Fprintf(w, "note\t%s\n", r.Note)
	fmt.Fprintf(w, "files\t%s\n", r.Out)
	fmt.Fprintf(w, "next\tdptrain eval %s\n", rundir.ShellQuote(r.Out))
	fmt.Fprintf(w, "\tdptrain ledger epsilon %s\n", rundir.ShellQuote(r.Out))
}

// printSelectionEpsilon accounts for a selection. A delta of 0 stands for the selection's
// own.
func printSelectionEpsilon(term *terminal.Terminal, path string, delta float64, name string) error {
	l, err := selection.ReadLedger(path)
	if err != nil {
		return err
	}
	noteAccountantOfSelection(term, name)
	if delta == 0 {
		delta = l.Delta
	}
	guarantee, err := l.Guarantee(delta)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	result := struct {
		budget.Guarantee
		Settings int                    `json:"settings"`
		Runs     selection.Distribution `json:"runs"`
		Unit     string                 `json:"unit"`
		Records  int                    `json:"records"`
	}{budget.NewGuarantee(guarantee), len(l.Candidates), l.Runs, l.Unit, l.Records}
	return term.Print(result, number.RoundUp(guarantee.Epsilon), func(w io.Writer) {
		result.Print(w, budget.Epsilon)
		fmt.Fprintf(w, "runs\t%s, with %s\n", l.Runs, number.Plural(result.Settings, "setting"))
		fmt.Fprintf(w, "unit of privacy\t%s\n", l.Unit)
	})
}

// noteAccountantOfSelection notes that the accountant that the user named is not used.
func noteAccountantOfSelection(term *terminal.Terminal, name string) {
	if name != "rdp" && name != accountant.Default {
		term.Note("The cost of a selection is computed from Rényi divergences, so the rdp accountant is used.")
	}
}
