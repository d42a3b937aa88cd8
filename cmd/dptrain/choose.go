package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/internal/budget"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/report"
	"github.com/dptrain/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/terminal"
)

// chosen is what tune answers on private data. All of it is the outcome of the
// selection, or was fixed before it.
type chosen struct {
	budget.Guarantee        // the cost of all runs together
	Data             string `json:"data"`
	Model            string `json:"model"`
	Best             winner `json:"best"`
	Flags            string `json:"flags"`
	Score            string `json:"score"` // what runs were compared by
	Settings         int    `json:"settings"`
	Runs             runs   `json:"runs"`
	Unit             string `json:"unit"`
	Records          int    `json:"records"`
	LedgerHead       string `json:"ledger_head"`
	Out              string `json:"out"`
}

// winner is the best run.
type winner struct {
	setting
	Accuracy  *float64 `json:"accuracy,omitempty"`
	MAE       *float64 `json:"validation_mae,omitempty"`
	Deviation float64  `json:"deviation"` // of the noise in either
	*missed
}

// choose selects a setting, and the model that it gave, on private data. The
// guarantee is accountant.Selection's: its ledger, with all that any run may
// release, is on disk before the first run; a run that its own ledger says
// released more is refused; and but for the outcome nothing of the runs remains,
// not even their number, which is drawn from the operating system's generator.
func chooseSettings(term *terminal.Terminal, set *settings, base *job, trials int, distribution string) error {
	if err := set.checkChoice(base); err != nil {
		return err
	}
	runs, err := parseRuns(distribution, trials)
	if err != nil {
		return err
	}
	settings, err := set.candidates(base, trials)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	plan := selection{Runs: runsOf(runs), Delta: base.config.Budget.Delta, Budget: set.epsilon, Score: scoreWords(base)}
	answer, err := terminal.Await(term, "Working out the noise of "+number.Plural(trials, "setting"), func() (accountant.Guarantee, error) { return plan.share(settings) })
	if err != nil {
		return exitcode.AsUsage(fmt.Errorf("--epsilon %v: %w", set.epsilon, err))
	}
	// A second Ctrl-C changes nothing: what the runs leave has to go first.
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	defer stop()
	release, err := rundir.Create(base.out)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	defer release()
	head, err := plan.write(filepath.Join(base.out, rundir.SelectionFile))
	if err != nil {
		return err
	}
	warnAboutDelta(term, plan.Delta, base.records)
	term.Note("Choosing among %s of %s on %s, by %s. How many runs it takes stays secret, and how they do: this may take a while.",
		number.Plural(trials, "setting"), base.model, base.task.Name, plan.Score)

	best, at, err := bestOf(ctx, settings, runs, filepath.Join(base.out, rundir.TrialsDir))
	if errors.Is(err, context.Canceled) {
		return &exitcode.Error{Code: exitcode.Interrupted, Err: fmt.Errorf("interrupted: nothing was chosen or kept; %s says what was set aside for it", filepath.Join(base.out, rundir.SelectionFile))}
	}
	if err != nil {
		return exitcode.AsFailure(err)
	}
	j := settings[at]
	j.directions = best.directions
	if err := j.save(best.parameters); err != nil {
		return exitcode.AsFailure(err)
	}
	out := chosen{Guarantee: budget.NewGuarantee(answer), Data: base.task.Name, Model: base.model,
		Best:  best.winner(j),
		Flags: j.flags(), Score: plan.Score, Settings: trials, Runs: plan.Runs, Unit: plan.Unit, Records: plan.Records, LedgerHead: head, Out: base.out}
	return term.Print(out, out.Flags, out.print)
}

// checkChoice refuses what a choice on private data cannot be made with.
func (s *settings) checkChoice(base *job) error {
	switch {
	case s.given["seed"]:
		return exitcode.Usagef("--seed: whoever can repeat the draws learns what the others came to; a choice on private data takes none")
	case s.cmd.Flags().Changed("accountant") && s.accountant != "rdp":
		return exitcode.Usagef("--accountant %s: what a choice costs is known by Rényi divergences alone; give rdp, or leave it out", s.accountant)
	case base.task.Test == nil && base.config.Validation.Set == nil:
		return exitcode.Usagef("%s has no test part to compare settings on: hold private records out by --validation-split 0.1, whose %s is released with noise", base.task.Name, base.measure())
	}
	return nil
}

// flags are those that repeat the setting.
func (j *job) flags() string {
	return fmt.Sprintf("--clip %v --lr %v --lot %d --steps %d", j.set.clip, j.set.lr, j.config.Sampling.Lot, j.config.Steps)
}

func scoreWords(j *job) string {
	held, targets := j.config.Validation.Set != nil, j.example.Targets > 0
	switch {
	case held && targets:
		return "mean absolute error on private records held out, released with noise"
	case held:
		return "accuracy on private records held out, released with noise"
	case targets:
		return "RMSE on public test data"
	}
	return "accuracy on public test data"
}

func (a chosen) print(w io.Writer) {
	fmt.Fprintf(w, "best\t%s\n", a.Flags)
	const flatters = "; the best of several, which flatters"
	switch {
	case a.Best.missed != nil:
		a.Best.missed.print(w, " on public test examples"+flatters)
	case a.Best.MAE != nil:
		fmt.Fprintf(w, "MAE\t%s on private records held out, answers beyond the target's limits counting as these; paid for%s\n", noisy(*a.Best.MAE, a.Best.Deviation), flatters)
	case a.Best.Deviation > 0:
		fmt.Fprintf(w, "accuracy\t%s on private records held out; paid for%s\n", noisyShare(*a.Best.Accuracy, a.Best.Deviation), flatters)
	default:
		fmt.Fprintf(w, "accuracy\t%.2f%% on public test examples%s\n", 100**a.Best.Accuracy, flatters)
	}
	fmt.Fprintf(w, "privacy\tε = %s at δ = %s for all runs together, by Rényi divergences\n", number.RoundUp(float64(a.Epsilon)), number.RoundUp(float64(a.Delta)))
	fmt.Fprintf(w, "\tadjacency %s, %s, %d settings, %s\n", a.Adjacency, report.DescribeUnit(a.Unit), a.Settings, a.Runs.words())
	fmt.Fprintf(w, "note\t%s\n", a.Note)
	fmt.Fprintf(w, "files\t%s\n", a.Out)
	fmt.Fprintf(w, "next\tdptrain eval %s\n", rundir.ShellQuote(a.Out))
	fmt.Fprintf(w, "\tdptrain ledger epsilon %s\n", rundir.ShellQuote(a.Out))
}
