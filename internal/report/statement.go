package report

import (
	"fmt"
	"strings"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// UnitWords says what a ledger's unit protects; what it does not know it repeats.
func UnitWords(unit string) string {
	kind, detail, _ := strings.Cut(unit, ":")
	switch {
	case kind == "example":
		return "one training example"
	case kind == "microbatch" && detail != "":
		return "one microbatch of " + detail + " examples"
	case kind == "user" && detail != "":
		return "all examples of one user (one value of " + detail + ")"
	case kind == "user":
		return "all examples of one user"
	}
	return "one " + unit
}

// differBy says how neighbouring data sets differ.
func differBy(adjacency ledger.Adjacency, unit string) string {
	switch adjacency {
	case ledger.AddRemove:
		return "adding or removing " + unit
	case ledger.ReplaceOne:
		return "replacing " + unit + " by another"
	case ledger.ZeroOut:
		return "replacing " + unit + " by one that adds nothing to any gradient"
	}
	return string(adjacency) + " of " + unit
}

// inQuestion is what someone who looks at the model wants to know.
func inQuestion(adjacency ledger.Adjacency, unit string) string {
	switch adjacency {
	case ledger.ReplaceOne:
		return "which of two candidates for " + unit + " was in the data"
	case ledger.ZeroOut:
		return "whether " + unit + " was in the data or left blank"
	}
	return "whether " + unit + " was in the data"
}

// computed says how an accountant came to its answer.
func computed(name string) string {
	switch name {
	case "pld":
		return "by composing privacy-loss distributions (connect-the-dots, Doroshenko et al. 2022)"
	case "rdp":
		return "by Rényi differential privacy (Mironov et al. 2019; conversion of Canonne et al. 2020)"
	case "moments":
		return "by the moments accountant (Abadi et al. 2016)"
	case "gdp":
		return "by the central-limit approximation of Gaussian differential privacy (Bu et al. 2020), which may understate it"
	case "zcdp":
		return "by zero-concentrated differential privacy (Bun and Steinke 2016)"
	case "strong":
		return "by strong composition (Dwork et al. 2010)"
	case "naive":
		return "by adding up the cost of the steps"
	}
	return "by the " + name + " accountant"
}

// drawn says how the records of the lots were chosen.
func drawn(h ledger.History) string {
	s := h.Lots[0].Lot.Sampling
	for _, spent := range h.Lots {
		if spent.Lot.Sampling != s {
			return "took a lot of the records, not all of them in the same way"
		}
	}
	records := "records"
	if n := max(s.Records, h.Header.Records); n > 0 {
		records = fmt.Sprintf("%d records", n)
	}
	switch s.Policy {
	case ledger.Poisson:
		return fmt.Sprintf("drew each of the %s independently with probability %s", records, Short(s.Rate))
	case ledger.FixedSize:
		return fmt.Sprintf("drew %d of the %s without replacement", s.LotSize, records)
	case ledger.Shuffle:
		return fmt.Sprintf("took the next %d of the %s in a random order", s.LotSize, records)
	}
	return "took all of the " + records
}

// noised says what was added to the sums.
func noised(h ledger.History) string {
	kinds := map[ledger.Mechanism]string{
		ledger.Gaussian:         "Gaussian noise",
		ledger.DiscreteGaussian: "discrete Gaussian noise",
		ledger.Laplace:          "Laplace noise",
	}
	first := h.Lots[0].Lot.Queries
	kind := kinds[first[0].Mechanism]
	for _, spent := range h.Lots {
		for _, q := range spent.Lot.Queries {
			if q.Mechanism != first[0].Mechanism {
				kind = "noise"
			}
		}
	}
	low, high, ok := noiseMultipliers(h)
	switch {
	case !ok:
		return kind
	case len(first) > 1:
		return fmt.Sprintf("%s (%d groups of vectors, which together amount to a noise multiplier of %s)", kind, len(first), span(low, high))
	}
	return fmt.Sprintf("%s (noise multiplier %s)", kind, span(low, high))
}

// DeltaWarning says what is wrong with a δ that lets a mechanism show a record in
// full; "" where it does not (Dwork and Roth 2014, section 2.3).
func DeltaWarning(delta float64, records int) string {
	if delta*float64(records) < 1 {
		return ""
	}
	return fmt.Sprintf("δ = %s is not below one over the %d records, so publishing one of them as it is would satisfy the guarantee", RoundUp(delta), records)
}

const insecure = "The randomness came from a seed, so this holds only against those who neither know nor guess it."

// Statement is the paragraph on privacy for a paper or a model card: the guarantee,
// what it protects, the mechanism, how it was accounted, and what is not covered
// (after Ponomareva et al. 2023, "How to DP-fy ML", section 5.3). It says of a
// history what a, an accountant's answer to it, found.
func Statement(h ledger.History, a accountant.Guarantee) string {
	if len(h.Lots) == 0 {
		return "Nothing that depends on the training data was released."
	}
	training, beside := apart(h)
	guarantee := "and satisfies (ε, δ)-differential privacy with ε ="
	switch {
	case a.ProvenBound > 0:
		guarantee = "for which (ε, δ)-differential privacy is published, though not proven for any data, with ε ="
	case a.Accountant == "gdp":
		guarantee = "for which an approximation, and no proof, gives (ε, δ)-differential privacy with ε ≈"
	}
	lines := []string{
		fmt.Sprintf("The model was trained with DP-SGD %s %s and δ = %s, in the central model, for neighbouring data sets that differ by %s.",
			guarantee, RoundUp(a.Epsilon), RoundUp(a.Delta), differBy(a.Adjacency, UnitWords(h.Header.Unit))),
	}
	if len(training.Lots) > 0 {
		lines = append(lines, fmt.Sprintf("Each of the %d steps %s, clipped the gradient of each and released their sum with %s.", training.LotCount(), drawn(training), noised(training)))
	}
	lines = append(lines,
		fmt.Sprintf("The cost of all steps together was computed %s; the guarantee covers the release of every intermediate model.", computed(a.Accountant)))
	for _, spent := range beside {
		over := "all records"
		if n := spent.Lot.Sampling.Records; n > 0 {
			over = fmt.Sprintf("%d records", n)
		}
		for _, q := range spent.Lot.Queries {
			lines = append(lines, fmt.Sprintf("The cost includes %s of %s over %s, with noise of %s times its sensitivity.",
				plural(spent.Count, "release"), q.Group, over, Short(q.Noise/q.Sensitivity)))
		}
	}
	if !h.Header.Secure {
		lines = append(lines, insecure)
	}
	if a.Note != "" {
		lines = append(lines, a.Note)
	}
	if w := DeltaWarning(a.Delta, h.Header.Records); w != "" {
		lines = append(lines, "The "+w+".")
	}
	lines = append(lines, "It does not cover choices made by looking at the private data outside of training, such as the tuning of hyperparameters.")
	return strings.Join(lines, " ")
}
