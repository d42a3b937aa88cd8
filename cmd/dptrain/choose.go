package main

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/engine"
)

// chosen is what tune answers on private data. All of it is the outcome of the
// selection, or was fixed before it.
type chosen struct {
	answerJSON        // the cost of all runs together
	Data       string `json:"data"`
	Model      string `json:"model"`
	Best       winner `json:"best"`
	Flags      string `json:"flags"`
	Score      string `json:"score"` // what runs were compared by
	Settings   int    `json:"settings"`
	Runs       runs   `json:"runs"`
	Unit       string `json:"unit"`
	Records    int    `json:"records"`
	LedgerHead string `json:"ledger_head"`
	Out        string `json:"out"`
}

// winner is the best run.
type winner struct {
	setting
	Accuracy  *float64 `json:"accuracy,omitempty"`
	MAE       *float64 `json:"validation_mae,omitempty"`
	Deviation float64  `json:"deviation"` // of the noise in either
	*missed
}

// chooseShare is what the validation that runs are compared by may cost alone, of
// one run's ε. Composed with the lots it adds about a thirtieth to their noise.
const chooseShare = 0.25

// runsFolder holds what the runs of a choice write, while it goes on.
const runsFolder = ".runs"

// parseRuns reads --runs.
func parseRuns(text string, mean int) (accountant.Runs, error) {
	r := accountant.Runs{Mean: float64(mean)}
	switch text {
	case "geometric":
		r.Shape = 1
	case "logarithmic":
	case "poisson":
		r.Shape = math.Inf(1)
	default:
		var err error
		if r.Shape, err = strconv.ParseFloat(text, 64); err != nil || math.IsInf(r.Shape, 0) {
			return r, unknownName("--runs", text, []string{"geometric", "logarithmic", "poisson", "a shape above -1"})
		}
	}
	if _, err := r.Quantile(0); err != nil {
		return r, wrong("--runs %s --trials %d: %w", text, mean, err)
	}
	return r, nil
}

// choose selects a setting, and the model that it gave, on private data. The
// guarantee is accountant.Selection's: its ledger, with all that any run may
// release, is on disk before the first run; a run that its own ledger says
// released more is refused; and but for the outcome nothing of the runs remains,
// not even their number, which is drawn from the operating system's generator.
func (s *screen) choose(set *settings, base *job, trials int, distribution string) error {
	if err := set.checkChoice(base); err != nil {
		return err
	}
	number, err := parseRuns(distribution, trials)
	if err != nil {
		return err
	}
	settings, err := set.candidates(base, trials)
	if err != nil {
		return asWrong(err)
	}
	plan := selection{Runs: runsOf(number), Delta: base.config.Delta, Budget: set.epsilon, Score: scoreWords(base)}
	answer, err := patiently(s, "Working out the noise of "+plural(trials, "setting"), func() (accountant.Answer, error) { return plan.share(settings) })
	if err != nil {
		return asWrong(fmt.Errorf("--epsilon %v: %w", set.epsilon, err))
	}
	// A second Ctrl-C changes nothing: what the runs leave has to go first.
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	defer stop()
	release, err := base.claim()
	if err != nil {
		return asWrong(err)
	}
	defer release()
	head, err := plan.write(filepath.Join(base.out, selectionFile))
	if err != nil {
		return err
	}
	s.warnOfDelta(plan.Delta, base.records)
	s.note("Choosing among %s of %s on %s, by %s. How many runs it takes stays secret, and how they do: this may take a while.",
		plural(trials, "setting"), base.model, base.task.Name, plan.Score)

	best, at, err := bestOf(ctx, settings, number, filepath.Join(base.out, runsFolder))
	if errors.Is(err, context.Canceled) {
		return &fault{exitInterrupted, fmt.Errorf("interrupted: nothing was chosen or kept; %s says what was set aside for it", filepath.Join(base.out, selectionFile))}
	}
	if err != nil {
		return asFailed(err)
	}
	j := settings[at]
	j.directions = best.directions
	if err := j.save(best.parameters); err != nil {
		return asFailed(err)
	}
	out := chosen{answerJSON: answerOf(answer), Data: base.task.Name, Model: base.model,
		Best:  best.winner(j),
		Flags: j.flags(), Score: plan.Score, Settings: trials, Runs: plan.Runs, Unit: plan.Unit, Records: plan.Records, LedgerHead: head, Out: base.out}
	return s.show(out, out.Flags, out.print)
}

// checkChoice refuses what a choice on private data cannot be made with.
func (s *settings) checkChoice(base *job) error {
	switch {
	case s.given["seed"]:
		return wrong("--seed: whoever can repeat the draws learns what the others came to; a choice on private data takes none")
	case s.cmd.Flags().Changed("accountant") && s.accountant != "rdp":
		return wrong("--accountant %s: what a choice costs is known by Rényi divergences alone; give rdp, or leave it out", s.accountant)
	case base.task.Test == nil && base.config.Validation.Set == nil:
		return wrong("%s has no test part to compare settings on: hold private records out by --validation-split 0.1, whose %s is released with noise", base.task.Name, base.measure())
	}
	return nil
}

// candidates are the settings to choose among, accounted as a choice is.
func (s *settings) candidates(base *job, trials int) ([]*job, error) {
	list := make([]*job, trials)
	for i := range list {
		v := s.variant(i, base)
		v.accountant = "rdp"
		v.forgetNoise()
		one := *base
		one.validationShare = chooseShare
		var err error
		if list[i], err = one.with(v); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// flags are those that repeat the setting.
func (j *job) flags() string {
	return fmt.Sprintf("--clip %v --lr %v --lot %d --steps %d", j.set.clip, j.set.lr, j.config.Lot, j.config.Steps)
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

// share gives every setting the same ε, as much as the budget for all of them
// allows, and states what they release.
func (p *selection) share(settings []*job) (accountant.Answer, error) {
	var answer accountant.Answer
	cost := func(each float64) (float64, error) {
		p.Candidates = p.Candidates[:0]
		for _, j := range settings {
			if err := j.recalibrate(each); err != nil {
				return 0, err
			}
			h := engine.Foreseen(j.config)
			p.Unit, p.Records, p.Adjacency = j.config.Records.Unit(), h.Header.Records, h.Header.Adjacency
			p.Candidates = append(p.Candidates, candidate{j.flags(), spentOf(h)})
		}
		var err error
		answer, err = p.accounted().Epsilon(p.Delta)
		return answer.Epsilon, err
	}
	// All runs together cost more than one, and less than so much more. A share that
	// is too small for the noise that is given hides nothing more by being smaller.
	low, high := p.Budget/64, p.Budget
	for high > low*1.005 {
		middle := math.Sqrt(low * high)
		all, err := cost(middle)
		switch {
		case err == nil && all > p.Budget:
			high = middle
		case err == nil || errors.Is(err, engine.ErrBudget):
			low = middle
		default:
			return answer, err
		}
	}
	all, err := cost(low)
	if err == nil && all > p.Budget {
		err = fmt.Errorf("%w: a choice costs ε = %.4g even where one run's is %.4g; raise the budget or δ, or lower --trials", engine.ErrBudget, all, low)
	}
	return answer, err
}

// recalibrate fixes the noise anew, for a budget of one run.
func (j *job) recalibrate(epsilon float64) error {
	j.set.forgetNoise()
	j.set.epsilon = epsilon
	if err := j.hide(epsilon); err != nil {
		return err
	}
	var err error
	j.config.Noise, err = engine.CalibrateNoise(j.config, j.set.epsilon)
	j.config.StopAtEpsilon = 0
	return err
}

// forgetNoise leaves the noise on what is released beside the lots to be worked out
// again, where it was not given.
func (s *settings) forgetNoise() {
	for _, name := range []string{"validation-noise", "project-noise"} {
		if !s.cmd.Flags().Changed(name) {
			delete(s.given, name)
		}
	}
}

// outcome is what one run releases.
type outcome struct {
	merit, deviation float64
	accuracy, mae    *float64 // one of them, or
	missed           *missed
	parameters       []engine.Parameter
	directions       []float32 // of a projection
}

// winner is the outcome as that of the best run.
func (o *outcome) winner(j *job) winner {
	return winner{j.setting(), o.accuracy, o.mae, o.deviation, o.missed}
}

// bestOf runs as many settings as chance says, and gives the best outcome and its
// setting. Of runs that did as well the first is best: as good as any, since they
// are alike. All that the runs write lies in a folder of their own, and goes.
func bestOf(ctx context.Context, settings []*job, number accountant.Runs, folder string) (best outcome, at int, err error) {
	var eight [8]byte
	crand.Read(eight[:]) // it never fails
	count, err := number.Quantile(float64(binary.LittleEndian.Uint64(eight[:])>>11) * 0x1p-53)
	if err != nil {
		return best, 0, err
	}
	if count == 0 {
		return best, 0, errors.New("the number of runs that was drawn is none, so nothing was chosen; the cost covers that outcome, and choosing again costs as much again")
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return best, 0, err
	}
	defer os.RemoveAll(folder)
	best.merit = math.Inf(-1)
	for range count {
		i, err := crand.Int(crand.Reader, big.NewInt(int64(len(settings))))
		if err != nil {
			return best, 0, err
		}
		got, err := settings[i.Int64()].once(ctx, filepath.Join(folder, "ledger.jsonl"))
		if err != nil {
			return best, 0, err
		}
		if got.merit > best.merit {
			best, at = got, int(i.Int64())
		}
	}
	return best, at, nil
}

// once trains with a setting, and scores what came out.
func (j *job) once(ctx context.Context, ledger string) (out outcome, err error) {
	c := j.config
	c.Checkpoint, c.Ledger = "", ledger
	defer os.Remove(ledger)
	run, err := engine.New(c)
	if err != nil {
		return out, err
	}
	defer run.Close()
	if err := run.Train(ctx, nil); err != nil {
		return out, err
	}
	if out.parameters, err = run.Parameters(); err != nil {
		return out, err
	}
	j.takeDirections(run)
	out.directions = j.directions
	if c.Validation.Set != nil {
		released, err := run.Validate()
		if err != nil {
			return out, err
		}
		out.merit, out.deviation = released.Score, released.Deviation
		if j.example.Targets > 0 {
			out.mae = &released.MAE
		} else {
			out.accuracy = &released.Accuracy
		}
	} else {
		got, err := score(j, out.parameters)
		if err != nil {
			return out, err
		}
		out.merit, out.missed = merit(&got), missedOf(&got)
		if out.missed == nil {
			out.accuracy = &got.Accuracy
		}
	}
	if err := run.Close(); err != nil {
		return out, err
	}
	return out, j.within(ledger)
}

// within refuses a run whose ledger says more than what was stated of it.
func (j *job) within(ledger string) error {
	h, err := accountant.Read(ledger)
	if err != nil {
		return err
	}
	spent, err := accountant.Epsilon(h, j.config.Delta, "rdp")
	if err != nil {
		return err
	}
	stated, err := accountant.Epsilon(engine.Foreseen(j.config), j.config.Delta, "rdp")
	if err != nil {
		return err
	}
	if !h.Header.Secure || spent.Epsilon > stated.Epsilon*(1+1e-9) {
		return errors.New("a run's ledger says more than what was set aside for it: nothing is released")
	}
	return nil
}

func (a chosen) print(w io.Writer) {
	fmt.Fprintf(w, "best\t%s\n", a.Flags)
	const flatters = " on public test examples; the best of several, which flatters"
	switch {
	case a.Best.missed != nil:
		a.Best.missed.print(w, flatters)
	case a.Best.MAE != nil:
		fmt.Fprintf(w, "MAE\t%s on private records held out, answers beyond the target's limits counting as these; paid for\n", noisy(*a.Best.MAE, a.Best.Deviation))
	case a.Best.Deviation > 0:
		fmt.Fprintf(w, "accuracy\t%s on private records held out; paid for\n", noisyShare(*a.Best.Accuracy, a.Best.Deviation))
	default:
		fmt.Fprintf(w, "accuracy\t%.2f%%%s\n", 100**a.Best.Accuracy, flatters)
	}
	fmt.Fprintf(w, "privacy\tε = %s at δ = %s for all runs together, by Rényi divergences\n", roundUp(float64(a.Epsilon)), roundUp(float64(a.Delta)))
	fmt.Fprintf(w, "\tadjacency %s, one %s, %d settings, %s\n", a.Adjacency, a.Unit, a.Settings, a.Runs.words())
	fmt.Fprintf(w, "note\t%s\n", a.Note)
	fmt.Fprintf(w, "files\t%s\n", a.Out)
	fmt.Fprintf(w, "next\tdptrain eval %s\n", a.Out)
	fmt.Fprintf(w, "\tdptrain ledger epsilon %s\n", a.Out)
}
