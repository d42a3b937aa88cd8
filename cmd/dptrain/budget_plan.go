package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/spf13/cobra"
)

// planFlags are the flags that describe a run to be planned.
type planFlags struct {
	rate         float64
	records, lot int
	steps        int
	epochs       float64
	noise        float64
	groups       string
	delta        float64
	epsilon      float64
	sampling     string
	adjacency    string
	unknown      string // the quantity that the command computes, by the name of its flag
	cmd          *cobra.Command
}

// answers are the flags that would say what a command computes, by its unknown.
var answers = map[string][]string{"epsilon": {"epsilon"}, "noise": {"noise"}, "steps": {"steps", "epochs"}, "rate": {"rate", "lot"}, "delta": {"delta"}}

var (
	policies    = []string{string(ledger.Poisson), string(ledger.FixedSize), string(ledger.Shuffle), string(ledger.FullBatch)}
	adjacencies = []string{string(ledger.AddRemove), string(ledger.ReplaceOne), string(ledger.ZeroOut)}
)

// planFlagsOf gives cmd the flags of a run of which it computes unknown.
func planFlagsOf(cmd *cobra.Command, unknown string) *planFlags {
	p := &planFlags{unknown: unknown, cmd: cmd}
	f := cmd.Flags()
	f.Float64Var(&p.rate, "rate", 0, "the probability with which a record is in a lot")
	f.IntVar(&p.records, "records", 0, "how many records the data has")
	f.IntVar(&p.lot, "lot", 0, "how many records a lot has, or is expected to have")
	f.IntVar(&p.steps, "steps", 0, "how many lots are drawn")
	f.Float64Var(&p.epochs, "epochs", 0, "how often each record is drawn, on average; in place of --steps")
	f.Float64Var(&p.noise, "noise", 0, "the noise multiplier: standard deviation over sensitivity")
	f.StringVar(&p.groups, "groups", "", "in place of --noise, S1:σ1,S2:σ2,…: the sensitivity and noise of each group of vectors")
	f.Float64Var(&p.delta, "delta", 0, "the δ of (ε, δ); by default the largest power of ten below 1/--records")
	f.Float64Var(&p.epsilon, "epsilon", 0, "the ε of (ε, δ)")
	f.StringVar(&p.sampling, "sampling", policies[0], "how lots are drawn: "+list(policies))
	f.StringVar(&p.adjacency, "adjacency", adjacencies[0], "which data sets cannot be told apart: "+list(adjacencies))
	for _, name := range answers[unknown] {
		f.Lookup(name).Hidden = true // read all the same, to say why they have no place
	}
	if unknown == "rate" {
		f.Lookup("epochs").Hidden = true // they depend on it
	}
	complete(cmd, "sampling", policies)
	complete(cmd, "adjacency", adjacencies)
	return p
}

func list(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func (p *planFlags) given(flag string) bool { return p.cmd.Flags().Changed(flag) }

// plan reads the flags. The unknown quantity is left zero.
func (p *planFlags) plan() (accountant.Plan, error) {
	plan := accountant.Plan{Adjacency: ledger.Adjacency(p.adjacency)}
	if err := exitcode.CheckChoice("sampling", p.sampling, policies); err != nil {
		return plan, err
	}
	if err := exitcode.CheckChoice("adjacency", p.adjacency, adjacencies); err != nil {
		return plan, err
	}
	for _, read := range []func(*accountant.Plan) error{p.readContradictions, p.readSampling, p.readSteps, p.readNoise, p.readTarget} {
		if err := read(&plan); err != nil {
			return plan, err
		}
	}
	return plan, nil
}

func (p *planFlags) readContradictions(*accountant.Plan) error {
	for _, name := range answers[p.unknown] {
		if p.given(name) {
			return exitcode.Usagef("--%s is what it computes: leave it out", name)
		}
	}
	for _, pair := range [][2]string{{"rate", "lot"}, {"steps", "epochs"}, {"noise", "groups"}} {
		if p.given(pair[0]) && p.given(pair[1]) {
			return exitcode.Usagef("--%s and --%s contradict each other: give one of them", pair[0], pair[1])
		}
	}
	if p.given("records") && p.records < 1 {
		return exitcode.Usagef("--records %d is impossible: give 1 or more", p.records)
	}
	return nil
}

func (p *planFlags) readSampling(plan *accountant.Plan) error {
	s := &plan.Sampling
	s.Policy, s.Records = ledger.Policy(p.sampling), p.records
	lots := s.Policy == ledger.FixedSize || s.Policy == ledger.Shuffle
	switch {
	case s.Policy == ledger.FullBatch:
		if p.given("rate") || p.given("lot") || p.unknown == "rate" {
			return exitcode.Usagef("--sampling none takes every record: it has no rate and no lot")
		}
		return nil
	case lots && p.given("rate"):
		return exitcode.Usagef("--sampling %s has no rate: give --records and --lot", s.Policy)
	case lots && p.records == 0:
		return exitcode.Usagef("--sampling %s needs --records", s.Policy)
	case p.unknown == "rate":
		return nil
	case p.given("lot"):
		if p.records == 0 {
			return exitcode.Usagef("--lot needs --records: a lot is a share of them")
		}
		if p.lot < 1 || p.lot > p.records {
			return exitcode.Usagef("--lot %d is impossible: give 1 to %d, the number of records", p.lot, p.records)
		}
		if lots {
			s.LotSize = p.lot
		} else {
			s.Rate = float64(p.lot) / float64(p.records)
		}
		return nil
	case lots:
		return exitcode.Usagef("--sampling %s needs --lot", s.Policy)
	case !p.given("rate"):
		return exitcode.Usagef("how lots are drawn is missing: give --rate, or --records and --lot")
	case !(p.rate > 0 && p.rate <= 1):
		return exitcode.Usagef("--rate %v is impossible: give a value above 0, up to 1", p.rate)
	}
	s.Rate = p.rate
	return nil
}

// lotsOf is how many lots of an expected size so many epochs of some records are: the nearest
// number, and at least one. A pass of shuffled lots that was begun is paid for whole.
func lotsOf(epochs float64, policy ledger.Policy, records, lot float64) float64 {
	lots := epochs * records / lot
	if policy == ledger.Shuffle {
		lots = epochs * math.Ceil(records/lot)
	}
	return max(1, math.Round(lots))
}

// lotsPerEpoch is how many lots draw each record once, on average.
func lotsPerEpoch(s ledger.Sampling) float64 {
	switch s.Policy {
	case ledger.Poisson:
		return 1 / s.Rate
	case ledger.FixedSize:
		return float64(s.Records) / float64(s.LotSize)
	case ledger.Shuffle:
		return math.Ceil(float64(s.Records) / float64(s.LotSize))
	}
	return 1
}

func (p *planFlags) readSteps(plan *accountant.Plan) error {
	switch {
	case p.unknown == "steps":
		return nil
	case p.given("steps"):
		if p.steps < 1 {
			return exitcode.Usagef("--steps %d is impossible: give 1 or more", p.steps)
		}
		plan.Steps = p.steps
		return nil
	case !p.given("epochs"):
		return exitcode.Usagef("the length of the run is missing: give --steps or --epochs")
	case p.unknown == "rate":
		return exitcode.Usagef("--epochs depends on the rate, which it computes: give --steps")
	case !(p.epochs > 0):
		return exitcode.Usagef("--epochs %v is impossible: give a value above 0", p.epochs)
	}
	records, lot := 1.0, cmp.Or(plan.Sampling.Rate, 1)
	if p.given("lot") {
		records, lot = float64(p.records), float64(p.lot)
	}
	steps := lotsOf(p.epochs, plan.Sampling.Policy, records, lot)
	if steps > 1<<53 {
		return exitcode.Usagef("--epochs %v is impossible: that is more than 2^53 lots", p.epochs)
	}
	plan.Steps = int(steps)
	return nil
}

func (p *planFlags) readNoise(plan *accountant.Plan) error {
	switch {
	case p.given("groups"):
		for i, text := range strings.Split(p.groups, ",") {
			left, right, ok := strings.Cut(strings.TrimSpace(text), ":")
			sensitivity, err1 := strconv.ParseFloat(left, 64)
			noise, err2 := strconv.ParseFloat(right, 64)
			if !ok || err1 != nil || err2 != nil || !positive(sensitivity) || !positive(noise) {
				return exitcode.Usagef("--groups: %q is not S:σ, a sensitivity and a noise above 0, as in 1:4,0.5:2", text)
			}
			plan.Groups = append(plan.Groups, ledger.Query{
				Group: strconv.Itoa(i + 1), Mechanism: ledger.Gaussian, Sensitivity: sensitivity, Noise: noise,
			})
		}
	case p.unknown == "noise":
	case !p.given("noise"):
		return exitcode.Usagef("the noise is missing: give --noise or --groups")
	case !positive(p.noise):
		return exitcode.Usagef("--noise %v is impossible: give a finite value above 0", p.noise)
	default:
		plan.Noise = p.noise
	}
	return nil
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 1) }

func (p *planFlags) readTarget(*accountant.Plan) error {
	if p.unknown != "epsilon" {
		if !p.given("epsilon") {
			return exitcode.Usagef("the target is missing: give --epsilon")
		}
		if !positive(p.epsilon) && !(p.unknown == "delta" && p.epsilon == 0) {
			return exitcode.Usagef("--epsilon %v is impossible: give a finite value above 0", p.epsilon)
		}
	}
	if p.unknown == "delta" {
		return nil
	}
	if !p.given("delta") {
		if p.records == 0 {
			return exitcode.Usagef("δ is missing: give --delta, or --records for the largest power of ten below one over them")
		}
		p.delta = engine.DefaultDelta(p.records)
		return nil
	}
	return checkDelta(p.delta)
}

// planJSON is a plan as scripts see it.
type planJSON struct {
	Sampling string      `json:"sampling"`
	Rate     float64     `json:"rate"`
	Records  int         `json:"records,omitempty"`
	Lot      int         `json:"lot,omitempty"`
	Steps    int         `json:"steps"`
	Epochs   float64     `json:"epochs"`
	Noise    float64     `json:"noise_multiplier"`
	Groups   []planGroup `json:"groups,omitempty"`
}

type planGroup struct {
	Sensitivity float64 `json:"sensitivity"`
	Noise       float64 `json:"noise"`
}

func planOf(plan accountant.Plan) planJSON {
	s := plan.Sampling
	v := planJSON{Sampling: string(s.Policy), Rate: s.Rate, Records: s.Records, Lot: s.LotSize, Steps: plan.Steps, Noise: plan.Noise}
	switch s.Policy {
	case ledger.Poisson:
		if lot := math.Round(s.Rate * float64(s.Records)); lot/float64(s.Records) == s.Rate {
			v.Lot = int(lot)
		}
	case ledger.FixedSize, ledger.Shuffle:
		v.Rate = float64(s.LotSize) / float64(s.Records)
	case ledger.FullBatch:
		v.Rate = 1
	}
	v.Epochs = float64(plan.Steps) / lotsPerEpoch(s)
	if len(plan.Groups) > 0 {
		// Gaussian groups are one Gaussian (McMahan et al. 2019, section 3).
		squares := 0.0
		for _, q := range plan.History().Lots[0].Lot.Queries {
			squares += (q.Sensitivity / q.Noise) * (q.Sensitivity / q.Noise)
			v.Groups = append(v.Groups, planGroup{q.Sensitivity, q.Noise})
		}
		v.Noise = 1 / math.Sqrt(squares)
	}
	return v
}

// print writes the plan, but for what is named in but.
func (v planJSON) print(w io.Writer, but ...string) {
	line := func(name, value string) {
		if !slices.Contains(but, name) {
			fmt.Fprintf(w, "%s\t%s\n", name, value)
		}
	}
	line("sampling", v.Sampling)
	line("rate", number.RoundDown(v.Rate))
	if v.Records > 0 {
		line("records", strconv.Itoa(v.Records))
	}
	if v.Lot > 0 {
		line("lot", strconv.Itoa(v.Lot))
	}
	line("steps", strconv.Itoa(v.Steps))
	line("epochs", strconv.FormatFloat(v.Epochs, 'g', 6, 64))
	line("noise", number.RoundUp(v.Noise))
	for i, g := range v.Groups {
		line(fmt.Sprintf("group %d", i+1), fmt.Sprintf("sensitivity %g, noise %s", g.Sensitivity, number.RoundUp(g.Noise)))
	}
}
