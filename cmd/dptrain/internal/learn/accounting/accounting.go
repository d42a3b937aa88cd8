// Package accounting has the operations of the guide that compute costs and do not train. Every
// number comes from package accountant, except for the formulas that a function cites.
package accounting

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/learn/operation"
)

// Operations are those of this package.
var Operations = operation.Table{
	"epsilon":   operation.Whole(epsilon),
	"noise":     operation.Whole(calibrate),
	"curve":     operation.Divided(curve, splitCurve, mergeCurves),
	"roc":       operation.Whole(roc),
	"responses": operation.Whole(responses),
	"mechanism": operation.Whole(mechanism),
	"spending":  operation.Whole(spending),
	"users":     operation.Divided(users, splitUsers, mergeUsers),
	"discard":   operation.Divided(discard, splitDiscard, mergeDiscards),
	"settings":  operation.Divided(settings, splitSettings, mergeSettings),
	"ledger":    operation.Whole(readLedger),
	"example":   operation.Whole(exampleLedger),
}

// plan describes lots as the flags of dptrain budget do.
type plan struct {
	Sampling string  `json:"sampling"` // poisson by default
	Records  int     `json:"records"`
	Lot      int     `json:"lot"`
	Rate     float64 `json:"rate"` // in place of Records and Lot
	Steps    int     `json:"steps"`
	Noise    float64 `json:"noise"`
	Groups   []group `json:"groups"`
}

type group struct {
	Sensitivity float64 `json:"sensitivity"`
	Noise       float64 `json:"noise"`
}

var errLot = errors.New("a lot has at least one record, and at most all: change the lot or the number of records")

func (p plan) accountant() (accountant.Plan, error) {
	a := accountant.Plan{Steps: p.Steps, Noise: p.Noise, Sampling: ledger.Sampling{Records: p.Records}}
	rate := p.Rate
	if p.Lot > 0 && p.Records > 0 {
		rate = float64(p.Lot) / float64(p.Records)
	}
	s := &a.Sampling
	switch s.Policy = ledger.Policy(p.Sampling); s.Policy {
	case "", ledger.Poisson:
		s.Policy, s.Rate = ledger.Poisson, rate
	case ledger.Truncated:
		s.Rate, s.LotSize = rate, accountant.DefaultMaxLot(rate, p.Records)
	case ledger.FixedSize, ledger.Shuffle:
		s.LotSize = p.Lot
	case ledger.FullBatch:
	default:
		return a, fmt.Errorf("there is no sampling %q", p.Sampling)
	}
	if s.Policy != ledger.FullBatch && !(rate > 0 && rate <= 1) {
		return a, errLot
	}
	if p.Records > 0 {
		a.Adjacency = ledger.ZeroOut // the number of records is public
	}
	for i, g := range p.Groups {
		a.Groups = append(a.Groups, ledger.Query{Group: fmt.Sprint("group ", i+1), Mechanism: ledger.Gaussian,
			Sensitivity: g.Sensitivity, Noise: g.Noise})
	}
	return a, nil
}

type epsilonRequest struct {
	Plan       plan    `json:"plan"`
	Delta      float64 `json:"delta"`
	Accountant string  `json:"accountant"` // all: one row for each
}

// row is the answer of one accountant.
type row struct {
	Accountant  string           `json:"accountant"`
	Epsilon     operation.Number `json:"epsilon"`
	Lower       operation.Number `json:"lower"` // 0: the accountant states no lower bound
	Order       float64          `json:"order"`
	Approximate bool             `json:"approximate"`
	Adjacency   string           `json:"adjacency"`
	Note        string           `json:"note"`
	Why         string           `json:"why"` // why there is no answer, or ""
}

func newRow(name string, g accountant.Guarantee, err error) row {
	if err != nil {
		return row{Accountant: name, Epsilon: operation.Number(math.Inf(1)), Why: err.Error()}
	}
	return row{Accountant: name, Epsilon: operation.Number(g.Epsilon), Lower: operation.Number(g.LowerBound), Order: g.Order,
		Approximate: g.Approximate, Adjacency: string(g.Adjacency), Note: g.Note}
}

type epsilonAnswer struct {
	Rows []row `json:"rows"`
}

func epsilon(q epsilonRequest, _ func(any)) (a epsilonAnswer, err error) {
	p, err := q.Plan.accountant()
	if err != nil {
		return a, err
	}
	names := []string{q.Accountant}
	if q.Accountant == "all" {
		names = accountant.Names()
	}
	c := accountant.Compose(p.History())
	for _, name := range names {
		g, err := c.Epsilon(q.Delta, name)
		if err != nil && len(names) == 1 {
			return a, err
		}
		a.Rows = append(a.Rows, newRow(name, g, err))
	}
	return a, nil
}

type noiseRequest struct {
	Plan    plan    `json:"plan"`
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
}

type noiseAnswer struct {
	Noise   float64 `json:"noise"`
	Epsilon float64 `json:"epsilon"` // of this noise: at most that of the request
	Lower   float64 `json:"lower"`
}

func calibrate(q noiseRequest, _ func(any)) (a noiseAnswer, err error) {
	p, err := q.Plan.accountant()
	if err != nil {
		return a, err
	}
	if a.Noise, err = accountant.CalibrateNoise(p, q.Epsilon, q.Delta, ""); err != nil {
		return a, err
	}
	p.Noise = a.Noise
	g, err := accountant.Epsilon(p.History(), q.Delta, "")
	a.Epsilon, a.Lower = g.Epsilon, g.LowerBound
	return a, err
}

// curveRequest asks for ε against the number of lots, one series for each plan and accountant.
type curveRequest struct {
	Series []series `json:"series"`
	Delta  float64  `json:"delta"`
}

type series struct {
	Name       string `json:"name"`
	Plan       plan   `json:"plan"` // without Steps
	Accountant string `json:"accountant"`
	Steps      []int  `json:"steps"`
}

type curveAnswer struct {
	Series []curvePoints `json:"series"`
}

type curvePoints struct {
	Name    string             `json:"name"`
	Steps   []int              `json:"steps"`
	Epsilon []operation.Number `json:"epsilon"`
}

func curve(q curveRequest, _ func(any)) (a curveAnswer, err error) {
	for _, s := range q.Series {
		points := curvePoints{Name: s.Name, Steps: s.Steps}
		for _, steps := range s.Steps {
			s.Plan.Steps = steps
			p, err := s.Plan.accountant()
			if err != nil {
				return a, err
			}
			g, err := accountant.Epsilon(p.History(), q.Delta, s.Accountant)
			e := g.Epsilon
			if err != nil {
				e = math.Inf(1)
			}
			points.Epsilon = append(points.Epsilon, operation.Number(e))
		}
		a.Series = append(a.Series, points)
	}
	return a, nil
}

func splitCurve(q curveRequest, parts int) (all []curveRequest) {
	for from, to := range operation.Ranges(len(q.Series), parts) {
		all = append(all, curveRequest{q.Series[from:to], q.Delta})
	}
	return all
}

func mergeCurves(answers []curveAnswer) (all curveAnswer) {
	for _, a := range answers {
		all.Series = append(all.Series, a.Series...)
	}
	return all
}

// rocRequest asks for the best attacks on one record: of one pair (ε, δ), or of a plan.
type rocRequest struct {
	Epsilon       float64   `json:"epsilon"`
	Delta         float64   `json:"delta"`
	Plan          *plan     `json:"plan"`
	FalsePositive []float64 `json:"false_positive"`
}

type rocAnswer struct {
	TruePositive []float64 `json:"true_positive"`
	// Guess is the largest probability of a correct guess between two equally likely data sets:
	// (1 + TPR − FPR)/2 at the best of the false-positive rates.
	Guess float64 `json:"guess"`
}

func roc(q rocRequest, _ func(any)) (a rocAnswer, err error) {
	t := accountant.TradeOffOf(q.Epsilon, q.Delta)
	if q.Plan != nil {
		p, err := q.Plan.accountant()
		if err != nil {
			return a, err
		}
		if t, err = accountant.Compose(p.History()).TradeOff(); err != nil {
			return a, err
		}
	}
	for _, f := range q.FalsePositive {
		tpr := t.TruePositiveRate(f)
		a.TruePositive = append(a.TruePositive, tpr)
		a.Guess = max(a.Guess, (1+tpr-f)/2)
	}
	return a, nil
}

type spendingRequest struct {
	Plan    plan    `json:"plan"`
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
	Metric  float64 `json:"metric"` // noise multiplier of a metric that is released with every lot; 0: none
	Runs    float64 `json:"runs"`   // mean number of runs of a private selection
}

type spendingAnswer struct {
	Gradients float64 `json:"gradients"` // noise multiplier of the gradients without the metric
	With      float64 `json:"with"`      // …, such that gradients and metric cost ε together
	Together  float64 `json:"together"`  // ε of gradients with the noise With and of the metric
	Filtered  int     `json:"filtered"`  // lots that a filter admits with the noise Gradients
	Selection float64 `json:"selection"` // ε of a selection among runs of this plan
	// Metrics and WithMetric are the curve of With against the metric's noise.
	Metrics    []float64 `json:"metrics"`
	WithMetric []float64 `json:"with_metric"`
}

// Spending answers what else than gradients one budget pays for.
func spending(q spendingRequest, _ func(any)) (a spendingAnswer, err error) {
	p, err := q.Plan.accountant()
	if err != nil {
		return a, err
	}
	if a.Gradients, err = accountant.CalibrateNoise(p, q.Epsilon, q.Delta, ""); err != nil {
		return a, err
	}
	// A lot with several Gaussian sums costs as much as one with (Σ z_g⁻²)^(−½), McMahan et al. 2019,
	// section 3. The gradients get what the metric leaves.
	noiseWith := func(metric float64) float64 {
		return 1 / math.Sqrt(1/(a.Gradients*a.Gradients)-1/(metric*metric))
	}
	for i := range 40 {
		m := a.Gradients * math.Pow(100, float64(i+1)/40)
		a.Metrics, a.WithMetric = append(a.Metrics, m), append(a.WithMetric, noiseWith(m))
	}
	a.With, a.Together = a.Gradients, q.Epsilon
	if q.Metric > 0 {
		if q.Metric <= a.Gradients {
			return a, fmt.Errorf("the metric alone costs more than ε = %g: give it noise above %.3g", q.Epsilon, a.Gradients)
		}
		// Four digits, rounded up, so that the reader can type the number.
		a.With = math.Ceil(noiseWith(q.Metric)*1e4) / 1e4
		both := q.Plan
		both.Groups = []group{{1, a.With}, {1, q.Metric}}
		b, err := both.accountant()
		if err != nil {
			return a, err
		}
		g, err := accountant.Epsilon(b.History(), q.Delta, "")
		if err != nil {
			return a, err
		}
		a.Together = g.Epsilon
	}
	p.Noise = a.Gradients
	h := p.History()
	rdp, err := accountant.Epsilon(h, q.Delta, "rdp")
	if err != nil {
		return a, err
	}
	filter, err := accountant.NewFilter(q.Epsilon, q.Delta, rdp.Order, h.Header.Adjacency)
	if err != nil {
		return a, err
	}
	for step := max(1, p.Steps/256); step > 0; step /= 2 {
		for a.Filtered < p.Steps {
			ok, err := filter.Admit(h.Lots[0].Lot, step)
			if err != nil {
				return a, err
			}
			if !ok {
				break
			}
			a.Filtered += step
		}
	}
	selection := accountant.Selection{Runs: accountant.RunDistribution{Shape: 1, Mean: q.Runs}, Candidates: []ledger.History{h}}
	g, err := selection.Epsilon(q.Delta)
	a.Selection = g.Epsilon
	return a, err
}

type usersRequest struct {
	Plan     plan    `json:"plan"` // of lots of examples
	Delta    float64 `json:"delta"`
	Examples []int   `json:"examples"` // of a user, several numbers
}

type usersAnswer struct {
	Examples []int              `json:"examples"`
	Example  float64            `json:"example"` // ε for one example
	Group    []operation.Number `json:"group"`   // ε for a user by group privacy
	// ByUser is the ε of lots whose record is a user, drawn with the same rate and noise.
	ByUser []float64 `json:"by_user"`
}

// Users compares the unit example with the unit user. Group privacy: (ε, δ) for an example is
// (kε, δ·(e^(kε) − 1)/(e^ε − 1)) for k examples (Vadhan 2017, lemma 2.2).
func users(q usersRequest, _ func(any)) (a usersAnswer, err error) {
	p, err := q.Plan.accountant()
	if err != nil {
		return a, err
	}
	c := accountant.Compose(p.History())
	g, err := c.Epsilon(q.Delta, "")
	if err != nil {
		return a, err
	}
	a.Example, a.Examples = g.Epsilon, q.Examples
	for _, k := range q.Examples {
		a.Group = append(a.Group, operation.Number(groupEpsilon(c, q.Delta, k)))
		u := q.Plan
		u.Records, u.Lot = q.Plan.Records/k, max(1, q.Plan.Lot/k)
		if p, err = u.accountant(); err != nil {
			return a, err
		}
		if g, err = accountant.Epsilon(p.History(), q.Delta, ""); err != nil {
			return a, err
		}
		a.ByUser = append(a.ByUser, g.Epsilon)
	}
	return a, nil
}

func splitUsers(q usersRequest, parts int) (all []usersRequest) {
	for from, to := range operation.Ranges(len(q.Examples), parts) {
		part := q
		part.Examples = q.Examples[from:to]
		all = append(all, part)
	}
	return all
}

func mergeUsers(answers []usersAnswer) (all usersAnswer) {
	for _, a := range answers {
		all.Example = a.Example
		all.Examples = slices.Concat(all.Examples, a.Examples)
		all.Group = slices.Concat(all.Group, a.Group)
		all.ByUser = slices.Concat(all.ByUser, a.ByUser)
	}
	return all
}

// groupEpsilon returns k·ε for the largest of some δ₁ at which an example has (ε, δ₁) by the rdp
// accountant, and the group's δ, δ₁·(e^(kε) − 1)/(e^ε − 1), is at most delta.
func groupEpsilon(c *accountant.Composition, delta float64, k int) float64 {
	best := math.Inf(1)
	for step := range 400 {
		d := delta * math.Pow(10, -float64(step)/4)
		g, err := c.Epsilon(d, "rdp")
		if err != nil {
			break
		}
		e := g.Epsilon
		if math.Log(d)+logExpm1(float64(k)*e)-logExpm1(e) <= math.Log(delta) {
			best = float64(k) * e
			break
		}
	}
	return best
}

// logExpm1 returns ln(e^x − 1).
func logExpm1(x float64) float64 {
	if x > 30 {
		return x
	}
	return math.Log(math.Expm1(x))
}

// settingsRequest asks for the noise at several ε, for one data set.
type settingsRequest struct {
	Plan     plan      `json:"plan"`
	Delta    float64   `json:"delta"`
	Epsilons []float64 `json:"epsilons"`
	Weights  int       `json:"weights"` // d
}

type settingsAnswer struct {
	Epsilons []float64 `json:"epsilons"`
	Noise    []float64 `json:"noise"`
	// Ratio is the norm of the noise in the mean gradient over the clip bound: z·√d/(q·N).
	Ratio []float64 `json:"ratio"`
}

func settings(q settingsRequest, _ func(any)) (a settingsAnswer, err error) {
	p, err := q.Plan.accountant()
	if err != nil {
		return a, err
	}
	for _, e := range q.Epsilons {
		z, err := accountant.CalibrateNoise(p, e, q.Delta, "")
		if err != nil {
			return a, err
		}
		a.Epsilons, a.Noise = append(a.Epsilons, e), append(a.Noise, z)
		a.Ratio = append(a.Ratio, z*math.Sqrt(float64(q.Weights))/float64(q.Plan.Lot))
	}
	return a, nil
}

func splitSettings(q settingsRequest, parts int) (all []settingsRequest) {
	for from, to := range operation.Ranges(len(q.Epsilons), parts) {
		part := q
		part.Epsilons = q.Epsilons[from:to]
		all = append(all, part)
	}
	return all
}

func mergeSettings(answers []settingsAnswer) (all settingsAnswer) {
	for _, a := range answers {
		all.Epsilons = slices.Concat(all.Epsilons, a.Epsilons)
		all.Noise = slices.Concat(all.Noise, a.Noise)
		all.Ratio = slices.Concat(all.Ratio, a.Ratio)
	}
	return all
}

type ledgerRequest struct {
	Text  string  `json:"text"`
	Delta float64 `json:"delta"`
}

type ledgerAnswer struct {
	Lots      int    `json:"lots"`
	Entries   int    `json:"entries"`
	Head      string `json:"head"`
	Unit      string `json:"unit"`
	Adjacency string `json:"adjacency"`
	Secure    bool   `json:"secure"`
	Complete  bool   `json:"complete"`
	Rows      []row  `json:"rows"`
}

// readLedger verifies a ledger, as dptrain ledger verify does, and computes its cost.
func readLedger(q ledgerRequest, _ func(any)) (a ledgerAnswer, err error) {
	h, s, err := ledger.Parse(strings.NewReader(q.Text))
	if err != nil {
		return a, err
	}
	a = ledgerAnswer{Lots: s.Lots, Entries: s.Entries, Head: s.Head, Unit: h.Header.Unit, Adjacency: string(h.Header.Adjacency),
		Secure: h.Header.Secure, Complete: s.Complete}
	c := accountant.Compose(h)
	for _, name := range accountant.Names() {
		g, err := c.Epsilon(q.Delta, name)
		a.Rows = append(a.Rows, newRow(name, g, err))
	}
	return a, nil
}

type exampleRequest struct {
	Plan plan `json:"plan"`
}

type exampleAnswer struct {
	Text string `json:"text"`
}

// exampleLedger writes the ledger of a run of a plan, without the run.
func exampleLedger(q exampleRequest, _ func(any)) (a exampleAnswer, err error) {
	p, err := q.Plan.accountant()
	if err != nil {
		return a, err
	}
	var b strings.Builder
	h := p.History()
	w, err := ledger.NewWriter(&b, ledger.Header{Unit: "example", Records: q.Plan.Records, Adjacency: h.Header.Adjacency, Secure: true})
	if err != nil {
		return a, err
	}
	for range p.Steps {
		if err := w.Spend(h.Lots[0].Lot); err != nil {
			return a, err
		}
	}
	w.SetComplete()
	err = w.Close()
	a.Text = b.String()
	return a, err
}
