package budget

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/noise"
)

// Quantity is one of the five quantities of a plan. Its value is the name of its flag.
type Quantity string

const (
	Epsilon Quantity = "epsilon"
	Noise   Quantity = "noise"
	Steps   Quantity = "steps"
	Rate    Quantity = "rate"
	Delta   Quantity = "delta"
)

var (
	// Policies are the values of --sampling. The first is the default.
	Policies = []string{string(ledger.Poisson), string(ledger.Truncated), string(ledger.FixedSize),
		string(ledger.Shuffle), string(ledger.FullBatch)}
	// Mechanisms are the values of --mechanism. The first is the default.
	Mechanisms = []string{string(engine.GaussianNoise), string(engine.LaplaceNoise)}
	// Allocations are the values of --allocation.
	Allocations = []string{string(engine.Proportional), string(engine.DimensionAdjusted)}
	// Adjacencies are the values of --adjacency.
	Adjacencies = []string{string(ledger.AddRemove), string(ledger.ReplaceOne), string(ledger.ZeroOut)}
)

// Request has the values of the flags that describe a plan. Given reports whether the user
// gave a flag.
type Request struct {
	Unknown   Quantity // the quantity to compute
	Rate      float64
	Records   int
	Lot       int
	MaxLot    int // largest truncated lot; 0: the default
	Steps     int
	Epochs    float64
	Noise     float64
	Mechanism string // "": Gaussian noise
	Groups    string
	// Allocation divides the noise among Groups, which then have sensitivities alone; "": Groups have
	// their noise.
	Allocation string
	Delta      float64
	Epsilon    float64
	Sampling   string
	Adjacency  string // "": see [Request.adjacency]
	Given      func(flag string) bool
}

// UnknownFlags are the flags that would give the quantity that is computed.
func UnknownFlags(q Quantity) []string {
	switch q {
	case Steps:
		return []string{"steps", "epochs"}
	case Rate:
		return []string{"rate", "lot"}
	}
	return []string{string(q)}
}

// Plan checks the request and converts it. The unknown quantity is zero in the plan. Plan
// sets Delta to its default if it was not given.
func (r *Request) Plan() (accountant.Plan, error) {
	plan := accountant.Plan{Adjacency: r.adjacency()}
	if err := exitcode.CheckChoice("sampling", r.Sampling, Policies); err != nil {
		return plan, err
	}
	if r.Given("mechanism") {
		if err := exitcode.CheckChoice("mechanism", r.Mechanism, Mechanisms); err != nil {
			return plan, err
		}
	}
	if err := exitcode.CheckChoice("adjacency", string(plan.Adjacency), Adjacencies); err != nil {
		return plan, err
	}
	for _, read := range []func(*accountant.Plan) error{r.checkConflicts, r.readSampling, r.readSteps, r.readNoise, r.readTarget} {
		if err := read(&plan); err != nil {
			return plan, err
		}
	}
	return plan, nil
}

// adjacency returns the given adjacency. By default a record is zeroed out where the number
// of records is given, because the plan then follows from it; a rate alone is a constant, so
// that a record can be added or removed. ε is the same.
func (r *Request) adjacency() ledger.Adjacency {
	switch {
	case r.Given("adjacency"):
		return ledger.Adjacency(r.Adjacency)
	case r.Given("records"):
		return ledger.ZeroOut
	}
	return ledger.AddRemove
}

func (r *Request) checkConflicts(*accountant.Plan) error {
	for _, flag := range UnknownFlags(r.Unknown) {
		if r.Given(flag) {
			return exitcode.Usagef("--%s is the quantity that this command computes: leave it out", flag)
		}
	}
	for _, pair := range [][2]string{{"rate", "lot"}, {"steps", "epochs"}, {"noise", "groups"}} {
		if r.Given(pair[0]) && r.Given(pair[1]) && !(pair[0] == "noise" && r.Given("allocation")) {
			return exitcode.Usagef("--%s and --%s exclude each other: give only one of them", pair[0], pair[1])
		}
	}
	if r.Given("records") && r.Records < 1 {
		return exitcode.Usagef("--records %d is out of range: give 1 or more", r.Records)
	}
	return nil
}

func (r *Request) readSampling(plan *accountant.Plan) error {
	s := &plan.Sampling
	s.Policy, s.Records = ledger.Policy(r.Sampling), r.Records
	fixedLots := s.Policy == ledger.FixedSize || s.Policy == ledger.Shuffle
	switch {
	case r.Given("max-lot") && s.Policy != ledger.Truncated:
		return exitcode.Usagef("--max-lot requires --sampling truncated: drop one of them")
	case s.Policy == ledger.FullBatch:
		if r.Given("rate") || r.Given("lot") || r.Unknown == Rate {
			return exitcode.Usagef("--sampling none uses every record in every step, so it has no rate and no lot: drop --rate and --lot, or choose another sampling")
		}
		return nil
	case fixedLots && r.Given("rate"):
		return exitcode.Usagef("--sampling %s does not use --rate: give --records and --lot instead", s.Policy)
	case (fixedLots || s.Policy == ledger.Truncated) && r.Records == 0:
		return exitcode.Usagef("--sampling %s requires --records", s.Policy)
	case s.Policy == ledger.Truncated && r.Unknown == Rate:
		return exitcode.Usagef("this command does not compute the rate of truncated lots, whose size depends on it: compute it with --sampling poisson, and check it with budget epsilon --sampling truncated")
	case r.Unknown == Rate:
		return nil
	case r.Given("lot"):
		if r.Records == 0 {
			return exitcode.Usagef("--lot requires --records, because the sampling rate is --lot divided by --records")
		}
		if r.Lot < 1 || r.Lot > r.Records {
			return exitcode.Usagef("--lot %d is out of range: give 1 to %d, the number of records", r.Lot, r.Records)
		}
		if fixedLots {
			s.LotSize = r.Lot
		} else {
			s.Rate = float64(r.Lot) / float64(r.Records)
		}
		return r.readMaxLot(s)
	case fixedLots:
		return exitcode.Usagef("--sampling %s requires --lot", s.Policy)
	case !r.Given("rate"):
		return exitcode.Usagef("the sampling rate is missing: give --rate, or --records and --lot")
	case !(r.Rate > 0 && r.Rate <= 1):
		return exitcode.Usagef("--rate %v is out of range: give a value above 0 and at most 1", r.Rate)
	}
	s.Rate = r.Rate
	return r.readMaxLot(s)
}

// readMaxLot sets the largest truncated lot.
func (r *Request) readMaxLot(s *ledger.Sampling) error {
	switch {
	case s.Policy != ledger.Truncated:
		return nil
	case s.Rate == 1:
		return exitcode.Usagef("--sampling truncated requires a rate below 1: use --sampling fixed, or a smaller --lot or --rate")
	case !r.Given("max-lot"):
		s.LotSize = accountant.DefaultMaxLot(s.Rate, s.Records)
		return nil
	case r.MaxLot < 1:
		return exitcode.Usagef("--max-lot %d is out of range: give 1 or more, or drop the flag for the default", r.MaxLot)
	}
	s.LotSize = r.MaxLot
	return nil
}

// LotCount converts epochs to the nearest number of lots, at least one. A started pass of
// shuffled lots costs as much as a whole pass.
func LotCount(epochs float64, policy ledger.Policy, records, lotSize float64) float64 {
	lots := epochs * records / lotSize
	if policy == ledger.Shuffle {
		lots = epochs * math.Ceil(records/lotSize)
	}
	return max(1, math.Round(lots))
}

func (r *Request) readSteps(plan *accountant.Plan) error {
	switch {
	case r.Unknown == Steps:
		return nil
	case r.Given("steps"):
		if r.Steps < 1 {
			return exitcode.Usagef("--steps %d is out of range: give 1 or more", r.Steps)
		}
		plan.Steps = r.Steps
		return nil
	case !r.Given("epochs"):
		return exitcode.Usagef("the length of the run is missing: give --steps or --epochs")
	case r.Unknown == Rate:
		return exitcode.Usagef("--epochs depends on the rate, which this command computes: give --steps instead")
	case !(r.Epochs > 0):
		return exitcode.Usagef("--epochs %v is out of range: give a value above 0", r.Epochs)
	}
	records, lotSize := 1.0, cmp.Or(plan.Sampling.Rate, 1)
	if r.Given("lot") {
		records, lotSize = float64(r.Records), float64(r.Lot)
	}
	steps := LotCount(r.Epochs, plan.Sampling.Policy, records, lotSize)
	if steps > 1<<53 {
		return exitcode.Usagef("--epochs %v is out of range: it is more than 2^53 lots", r.Epochs)
	}
	plan.Steps = int(steps)
	return nil
}

// isLaplace reports whether the noise is Laplace noise.
func (r *Request) isLaplace() bool { return r.Mechanism == string(engine.LaplaceNoise) }

func (r *Request) readNoise(plan *accountant.Plan) error {
	switch {
	case r.isLaplace() && r.Given("groups"):
		return exitcode.Usagef("--groups requires Gaussian noise: a run with --mechanism laplace has one group; give --noise")
	case r.isLaplace() && plan.Sampling.Policy == ledger.Truncated:
		return exitcode.Usagef("--sampling truncated requires Gaussian noise: the cost of such lots is known for it only; use --sampling poisson, or drop --mechanism laplace")
	case r.Given("allocation"):
		return r.readAllocation(plan)
	case r.Given("groups"):
		for i, text := range strings.Split(r.Groups, ",") {
			left, right, ok := strings.Cut(strings.TrimSpace(text), ":")
			sensitivity, err1 := strconv.ParseFloat(left, 64)
			noise, err2 := strconv.ParseFloat(right, 64)
			if !ok || err1 != nil || err2 != nil || !isPositive(sensitivity) || !isPositive(noise) {
				return exitcode.Usagef("--groups: %q is not S:σ; give a sensitivity and a noise above 0 for each group, as in 1:4,0.5:2", text)
			}
			plan.Groups = append(plan.Groups, ledger.Query{
				Group: strconv.Itoa(i + 1), Mechanism: ledger.Gaussian, Sensitivity: sensitivity, Noise: noise,
			})
		}
	case r.Unknown == Noise:
	case !r.Given("noise"):
		return exitcode.Usagef("the noise is missing: give --noise or --groups")
	case !isPositive(r.Noise):
		return exitcode.Usagef("--noise %v is out of range: give a finite value above 0", r.Noise)
	default:
		plan.Noise = r.Noise
	}
	if r.isLaplace() { // over the reals, which costs at least as much as the discrete noise of a run
		plan.Groups = []ledger.Query{{Group: "all", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: 1}}
	}
	return nil
}

// readAllocation divides the noise among groups of which the sensitivity, and with
// engine.DimensionAdjusted the number of weights, is given.
func (r *Request) readAllocation(plan *accountant.Plan) error {
	if err := exitcode.CheckChoice("allocation", r.Allocation, Allocations); err != nil {
		return err
	}
	if !r.Given("groups") {
		return exitcode.Usagef("--allocation requires --groups: give the sensitivity of each group, as in 1,0.5")
	}
	bySize := r.Allocation == string(engine.DimensionAdjusted)
	var groups []noise.GroupSize
	for _, text := range strings.Split(r.Groups, ",") {
		left, right, hasSize := strings.Cut(strings.TrimSpace(text), "/")
		sensitivity, err := strconv.ParseFloat(left, 64)
		size := 1
		if err == nil && hasSize {
			size, err = strconv.Atoi(right)
		}
		if err != nil || !isPositive(sensitivity) || size < 1 || bySize && !hasSize {
			return exitcode.Usagef("--groups: %q does not fit --allocation %s: give a sensitivity above 0 for each group, and with %s its number of weights after a slash, as in 1/5000,0.5/20", text, r.Allocation, engine.DimensionAdjusted)
		}
		groups = append(groups, noise.GroupSize{Sensitivity: sensitivity, Dimension: size})
	}
	allocate := noise.Proportional
	if bySize {
		allocate = noise.DimensionAdjusted
	}
	sigmas, err := allocate(1, groups)
	if err != nil {
		return exitcode.Usagef("--groups %s: %w", r.Groups, err)
	}
	for i, sigma := range sigmas {
		plan.Groups = append(plan.Groups, ledger.Query{Group: strconv.Itoa(i + 1), Mechanism: ledger.Gaussian,
			Sensitivity: groups[i].Sensitivity, Noise: sigma})
	}
	switch {
	case r.Unknown == Noise:
	case !isPositive(r.Noise):
		return exitcode.Usagef("--allocation divides the noise multiplier of all groups together: give it with --noise, a finite value above 0")
	default:
		plan.Noise = r.Noise
	}
	return nil
}

// isPositive reports whether x is positive and finite.
func isPositive(x float64) bool { return x > 0 && !math.IsInf(x, 1) }

func (r *Request) readTarget(*accountant.Plan) error {
	if r.Unknown != Epsilon {
		if !r.Given("epsilon") {
			return exitcode.Usagef("the target is missing: give --epsilon")
		}
		if !isPositive(r.Epsilon) && !(r.Unknown == Delta && r.Epsilon == 0) {
			return exitcode.Usagef("--epsilon %v is out of range: give a finite value above 0", r.Epsilon)
		}
	}
	if r.Unknown == Delta {
		return nil
	}
	if !r.Given("delta") {
		if r.Records == 0 {
			return exitcode.Usagef("δ is missing: give --delta, or --records for the default")
		}
		r.Delta = accountant.DefaultDelta(r.Records)
		return nil
	}
	return CheckDelta(r.Delta)
}
