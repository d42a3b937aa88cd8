package budget

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant/adversary"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// LocalMechanisms lists the noise of a client that contributes to draw and discard.
var LocalMechanisms = []string{"laplace", "gaussian"}

// Limits of a request, within which the sums are exact to their stated errors.
const (
	maxInstances = 1_000_000
	maxUpdates   = 1_000_000_000_000
	maxClients   = 100_000_000
	maxWeights   = 1_000_000_000
	maxLocal     = 100 // ε
	maxSeveral   = 1_000_000
)

// LocalRequest describes a contribution to a model that is trained by draw and discard.
type LocalRequest struct {
	Instances int
	Epsilon   float64
	Mechanism string
	Delta     float64 // of the stated (ε, δ); with Gaussian noise also of the contribution
	Updates   int64   // between the contribution and the look of adversary III; 0 is at once
	Clients   int     // that contribute once each in random order; 0 if unknown
	Weights   int     // of a model whose gradient is clipped to a box; 0 if unknown
	Several   int     // contributions of the client; 0: one
	Level     string  // what Epsilon is about: one of LocalLevels
	Given     func(flag string) bool
}

// LocalAnswer states what each adversary learns about one contribution.
type LocalAnswer struct {
	Instances int          `json:"instances"`
	Level     string       `json:"privacy"`
	Epsilon   float64      `json:"epsilon"`
	Mechanism string       `json:"mechanism"`
	Delta     float64      `json:"delta"`
	Updates   *int64       `json:"updates,omitempty"`
	Clients   int          `json:"clients,omitempty"`
	Weights   int          `json:"weights,omitempty"`
	Several   int          `json:"contributions,omitempty"` // of one client, if more than one; the bounds of all follow
	Channel   number.Float `json:"channel"`                 // ε of adversary I
	Insider   number.Float `json:"insider"`                 // expected loss of adversary II; not a guarantee
	Whole     *WholeModel  `json:"whole_model,omitempty"`   // with Level feature and Weights
	Later     *LaterAnswer `json:"later"`                   // adversary III; null without --updates
	Bounds    []LocalBound `json:"bounds"`
}

// WholeModel states what all weights together reveal where ε is that of each weight by itself.
type WholeModel struct {
	Pure    number.Float `json:"pure_epsilon"` // of all contributions
	Epsilon number.Float `json:"epsilon"`      // of all contributions, at the stated δ; at most Pure
}

// LocalLevels are the values of --privacy.
var LocalLevels = []string{"model", "feature"}

// LaterAnswer states what an adversary learns who sees the server some updates later.
type LaterAnswer struct {
	Gone      number.Float `json:"gone"`      // probability that no instance descends from the contribution
	Epsilon   number.Float `json:"epsilon"`   // of one instance, drawn at random, at Delta
	Delta     number.Float `json:"delta"`     // of each ε in this object
	Advantage number.Float `json:"advantage"` // of guessing between two data sets of the client from one instance
	All       Exposure     `json:"all"`       // all instances
	Iterated  Exposure     `json:"iterated"`  // one instance, if later steps are non-expansive
}

// Exposure bounds what a view reveals.
type Exposure struct {
	Epsilon   number.Float `json:"epsilon"`
	Advantage number.Float `json:"advantage"`
}

// LocalBound is one statement about an adversary.
type LocalBound struct {
	Adversary  string       `json:"adversary"`
	Quantity   string       `json:"quantity"`
	Value      number.Float `json:"value"`
	Kind       string       `json:"kind"` // worst case, expectation or probability
	Assumption string       `json:"assumption"`
	Source     string       `json:"source"`
}

const (
	worstCase   = "worst case"
	expectation = "expectation"
	probability = "probability"

	channelName = "I channel"
	insiderName = "II insider"
	laterName   = "III later"
	wholeName   = "the whole model"
)

func (r *LocalRequest) check() error {
	switch {
	case !r.Given("instances"):
		return exitcode.Usagef("--instances is missing: give the number of model instances that the server holds")
	case r.Instances < 1 || r.Instances > maxInstances:
		return exitcode.Usagef("--instances %d is out of range: give 1 to %d", r.Instances, maxInstances)
	case !r.Given("epsilon"):
		return exitcode.Usagef("--epsilon is missing: give the ε of a client's contribution")
	case !(r.Epsilon > 0 && r.Epsilon <= maxLocal):
		return exitcode.Usagef("--epsilon %g is out of range: give a number above 0 and at most %d", r.Epsilon, maxLocal)
	case !(r.Delta > 0 && r.Delta < 1):
		return exitcode.Usagef("--delta %g is out of range: give a number between 0 and 1", r.Delta)
	case r.Updates < 0 || r.Updates > maxUpdates:
		return exitcode.Usagef("--updates %d is out of range: give 0 to %d", r.Updates, int64(maxUpdates))
	case r.Given("clients") && (r.Clients < 1 || r.Clients > maxClients):
		return exitcode.Usagef("--clients %d is out of range: give 1 to %d", r.Clients, maxClients)
	case r.Given("weights") && (r.Weights < 1 || r.Weights > maxWeights):
		return exitcode.Usagef("--weights %d is out of range: give 1 to %d", r.Weights, maxWeights)
	case r.Given("contributions") && (r.Several < 1 || r.Several > maxSeveral):
		return exitcode.Usagef("--contributions %d is out of range: give 1 to %d", r.Several, maxSeveral)
	case r.Level == "feature" && !r.Given("weights") && r.Given("privacy"):
		return exitcode.Usagef("--privacy feature: give --weights, the number of weights of the model, for the ε of all of them")
	case r.Given("weights") && r.Mechanism != "laplace":
		return exitcode.Usagef("--weights has no effect with --mechanism %s; use --mechanism laplace or drop the flag", r.Mechanism)
	case r.Given("clients") && r.Mechanism != "laplace":
		return exitcode.Usagef("--clients with --mechanism %s has no proven bound here; use --mechanism laplace or drop the flag", r.Mechanism)
	}
	if err := exitcode.CheckChoice("privacy", r.Level, LocalLevels); err != nil {
		return err
	}
	return exitcode.CheckChoice("mechanism", r.Mechanism, LocalMechanisms)
}

// Answer computes the bounds.
func (r *LocalRequest) Answer() (*LocalAnswer, error) {
	r.Level = cmp.Or(r.Level, LocalLevels[0])
	if err := r.check(); err != nil {
		return nil, err
	}
	if r.Level == "feature" {
		return r.answerFeature()
	}
	contribution, at := adversary.NewLaplace(r.Epsilon), ""
	switch {
	case r.Mechanism == "gaussian":
		contribution, at = adversary.NewGaussian(r.Epsilon, r.Delta), " at δ"
	case r.Weights > 0:
		contribution = adversary.NewBoxLaplace(r.Epsilon, r.Weights)
	}
	a := &LocalAnswer{Instances: r.Instances, Level: r.Level, Epsilon: r.Epsilon, Mechanism: r.Mechanism, Delta: r.Delta,
		Clients: r.Clients, Weights: r.Weights,
		Channel: number.Float(r.Epsilon), Insider: number.Float(adversary.InsiderExpectedLoss(r.Instances, r.Epsilon))}
	add := func(name, quantity string, value float64, kind, assumption, source string) {
		a.Bounds = append(a.Bounds, LocalBound{name, quantity, number.Float(value), kind, assumption, source})
	}
	source, view := adversarySources[r.Mechanism], "none: holds for every view of the returned model"
	add(channelName, "ε"+at, r.Epsilon, worstCase, "one contribution, noised by the client", "definition of the client's mechanism")
	if r.Weights > 0 {
		source = "Bun and Steinke 2016, proposition 3.3; Canonne, Kamath and Steinke 2020, proposition 12; Pinsker's inequality"
		view = fmt.Sprintf("each of %s of the average gradient is clipped to a box, with noise for the ℓ1 sensitivity of all", number.Plural(r.Weights, "weight"))
		add(channelName, "ε at δ", contribution.EpsilonAt(r.Delta), worstCase, view, source)
	}
	add(channelName, "advantage", contribution.Advantage(), worstCase, view, source)
	add(channelName, "mean log likelihood ratio", contribution.ExpectedLoss(), expectation, view, source)
	add(insiderName, "mean of ε over draws", float64(a.Insider), expectation,
		"the insider sees the instances after the contribution only, and an overwritten instance reveals nothing; not a guarantee", "Pihur et al. 2018, lemma 4.1")
	add(insiderName, "ε"+at, r.Epsilon, worstCase, "none; the other bounds of adversary I hold, too", "post-processing")
	if r.Clients > 0 {
		add(insiderName, "ε at δ", adversary.ShuffledEpsilon(r.Epsilon, r.Clients, r.Delta), worstCase,
			fmt.Sprintf("%s contribute once each, in uniformly random order that the insider does not know; the insider sees every draw and return", number.Plural(r.Clients, "client")),
			"Feldman, McMillan and Talwar 2021, theorem 3.2")
	}
	if r.Several > 1 {
		a.Several = r.Several
		total := "of all contributions: ε"
		if r.Mechanism == "gaussian" {
			total += fmt.Sprintf(" at %dδ", r.Several)
		}
		add(insiderName, total, float64(r.Several)*r.Epsilon, worstCase, "each is noised by itself", "basic composition")
		add(insiderName, "of all contributions: mean of ε over draws", float64(r.Several)*float64(a.Insider), expectation,
			"as for one; not a guarantee", "Pihur et al. 2018, lemma 4.1, added up")
		if r.Clients > 0 {
			each := adversary.ShuffledEpsilon(r.Epsilon, r.Clients, r.Delta/float64(r.Several))
			add(insiderName, "of all contributions: ε at δ", float64(r.Several)*each, worstCase,
				"each contribution is in a pass of its own, in which every client contributes once in a fresh unknown order", "basic composition of the passes")
		}
	}
	if r.Given("updates") {
		a.Updates = &r.Updates
		a.addLater(adversary.Later{Contribution: contribution, Instances: r.Instances, Updates: float64(r.Updates)}, add)
	}
	return a, nil
}

// answerFeature states the bounds where ε is that of each weight by itself: those of one weight, and what all
// weights reveal together.
func (r *LocalRequest) answerFeature() (*LocalAnswer, error) {
	one := *r
	one.Level, one.Weights = LocalLevels[0], 0
	one.Given = func(flag string) bool { return flag != "weights" && flag != "privacy" && r.Given(flag) }
	a, err := one.Answer()
	if err != nil {
		return nil, err
	}
	for i := range a.Bounds {
		a.Bounds[i].Quantity = "one weight: " + a.Bounds[i].Quantity
	}
	if a.Later != nil { // the steps of one weight depend on the other weights
		a.Later.Iterated = Exposure{number.Float(a.Later.Epsilon), number.Float(a.Later.Advantage)}
		a.Bounds = slices.DeleteFunc(a.Bounds, func(b LocalBound) bool { return b.Source == feldmanIterated })
	}
	a.Level, a.Weights = r.Level, r.Weights
	n, m := float64(max(1, r.Several)), float64(r.Weights)
	pure := n * m * r.Epsilon
	whole := adversary.NewBoxLaplace(pure, int(min(n*m, math.MaxInt32)))
	a.Whole = &WholeModel{number.Float(pure), number.Float(whole.EpsilonAt(r.Delta))}
	what := fmt.Sprintf("all %s", number.Plural(r.Weights, "weight"))
	if r.Several > 1 {
		what += fmt.Sprintf(" of %s", number.Plural(r.Several, "contribution"))
	}
	const each = "each weight of each contribution has its own Laplace noise"
	a.Bounds = append(a.Bounds,
		LocalBound{wholeName, what + ": ε", a.Whole.Pure, worstCase, each, "basic composition over weights and contributions"},
		LocalBound{wholeName, what + ": ε at δ", a.Whole.Epsilon, worstCase, each + "; it holds for every adversary, by post-processing",
			"Bun and Steinke 2016, proposition 3.3; Canonne, Kamath and Steinke 2020, proposition 12"})
	return a, nil
}

// adversarySources names the theorem behind the bounds of a mechanism's view.
var adversarySources = map[string]string{
	"laplace":  "Kairouz, Oh and Viswanath 2015: randomized response is the worst ε-DP mechanism",
	"gaussian": "Balle and Wang 2018, theorem 8",
}

const feldmanIterated = "Feldman, Mironov, Talwar and Thakurta 2018, theorem 22, over the binomial length of a lineage"

func (a *LocalAnswer) addLater(l adversary.Later, add func(name, quantity string, value float64, kind, assumption, source string)) {
	const (
		lineage  = "lineage of instances, derived in accountant/adversary"
		choices  = "the server's choices do not depend on models: no spam filter"
		oneModel = "one instance, drawn at random; " + choices
		allSeen  = "all instances, or any function of them such as the average; " + choices
		nearby   = oneModel + "; later steps are non-expansive in ℓ2 (convex β-smooth loss, learning rate at most 2/β, no clipping of averages), with noise of one scale"
		feldman  = feldmanIterated
	)
	exposure := func(deltaAt func(float64) float64) Exposure {
		return Exposure{number.Float(l.Epsilon(deltaAt, a.Delta)), number.Float(deltaAt(0))}
	}
	one, all, iterated := exposure(l.OneModelDelta), exposure(l.AllInstancesDelta), exposure(l.IteratedDelta())
	gone := adversary.GoneProbability(l.Instances, l.Updates)
	if a.Several > 1 {
		const ago = "; the last contribution is that many updates ago"
		a.addSeveral("of all contributions, from one instance: ", oneModel+ago, l.OneModelDelta, add)
		a.addSeveral("of all contributions, from all instances: ", allSeen+ago, l.AllInstancesDelta, add)
	}
	a.Later = &LaterAnswer{number.Float(gone), one.Epsilon, number.Float(a.Delta), one.Advantage, all, iterated}
	add(laterName, "contribution is gone", gone, probability, choices, "Pihur et al. 2018, lemma 4.2; exact value by Tavaré 1984")
	for _, view := range []struct {
		Exposure
		assumption, source string
	}{{one, oneModel, lineage}, {all, allSeen, lineage}, {iterated, nearby, feldman}} {
		add(laterName, "ε at δ", float64(view.Epsilon), worstCase, view.assumption, view.source)
		add(laterName, "advantage", float64(view.Advantage), worstCase, view.assumption, view.source)
	}
}

// addSeveral adds what adversary III learns from all contributions of the client, where deltaAt is δ of one.
func (a *LocalAnswer) addSeveral(view, assumption string, deltaAt func(float64) float64,
	add func(name, quantity string, value float64, kind, assumption, source string)) {
	const source = "group privacy over the contributions, derived in accountant/adversary"
	s := adversary.Several{Contributions: a.Several, Delta: deltaAt}
	add(laterName, view+"ε at δ", s.Epsilon(a.Delta, a.Epsilon), worstCase, assumption, source)
	add(laterName, view+"advantage", s.Advantage(), worstCase, assumption, source)
}

// Bare is the answer for scripts: channel, insider and, with --updates, the probability that the
// contribution is gone.
func (a *LocalAnswer) Bare() string {
	text := number.RoundUp(float64(a.Channel)) + " " + number.RoundUp(float64(a.Insider))
	if a.Later != nil {
		text += " " + number.RoundDown(float64(a.Later.Gone))
	}
	return text
}

// Print writes one block of lines for each adversary.
func (a *LocalAnswer) Print(w io.Writer) {
	noise := fmt.Sprintf("Laplace noise, ε = %s", number.Short(a.Epsilon))
	if a.Mechanism == "gaussian" {
		noise = fmt.Sprintf("Gaussian noise, ε = %s, δ = %s", number.Short(a.Epsilon), number.Short(a.Delta))
	}
	switch {
	case a.Level == "feature":
		noise += fmt.Sprintf(" of each of %s by itself", number.Plural(a.Weights, "weight"))
	case a.Weights > 0:
		noise += fmt.Sprintf(" on %s of a gradient clipped to a box", number.Plural(a.Weights, "weight"))
	}
	if a.Several > 1 {
		fmt.Fprintf(w, "%s of one client; lines without \"of all\" are for one of them.\n", number.Plural(a.Several, "contribution"))
	}
	fmt.Fprintf(w, "One contribution (%s) to a server with %s. δ = %s.\n", noise, number.Plural(a.Instances, "instance"), number.Short(a.Delta))
	titles := map[string]string{wholeName: "sees all weights of all returned models", channelName: "sees the returned model", insiderName: "sees all instances at the server", laterName: ""}
	if a.Updates != nil {
		titles[laterName] = fmt.Sprintf("sees the server %s later", number.Plural(int(*a.Updates), "update"))
	}
	previous := ""
	for _, b := range a.Bounds {
		if b.Adversary != previous {
			fmt.Fprintf(w, "\n%s: %s\n", b.Adversary, titles[b.Adversary])
			previous = b.Adversary
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\n    assumes: %s\n    source: %s\n", b.Quantity, b.format(), b.Kind, b.Assumption, b.Source)
	}
	if a.Updates == nil {
		fmt.Fprintln(w, "\nIII later: give --updates for an adversary who sees the server later.")
	}
}

// format rounds towards less privacy.
func (b LocalBound) format() string {
	value := float64(b.Value)
	switch {
	case b.Kind == probability:
		return number.RoundDown(value)
	case math.IsInf(value, 1):
		return "∞"
	}
	return number.RoundUp(value)
}
