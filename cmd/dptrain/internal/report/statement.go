package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// DescribeUnit describes a ledger's unit of privacy. It repeats a unit that it does not know.
func DescribeUnit(unit string) string {
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

// describeDifference describes how neighbouring data sets differ.
func describeDifference(adjacency ledger.Adjacency, unit string) string {
	switch adjacency {
	case ledger.AddRemove:
		return "adding or removing " + unit
	case ledger.ReplaceOne:
		return "replacing " + unit + " by another"
	case ledger.ZeroOut:
		return "replacing " + unit + " by one that contributes nothing to any gradient"
	}
	return string(adjacency) + " of " + unit
}

// explainAdjacency states what an adjacency assumes about the number of records, from which
// the rate and the normaliser of Poisson and truncated lots follow; "" for other lots.
func explainAdjacency(adjacency ledger.Adjacency, training ledger.History) string {
	truncated := hasPolicy(training, ledger.Truncated)
	if !truncated && !hasPolicy(training, ledger.Poisson) {
		return ""
	}
	switch adjacency {
	case ledger.ZeroOut:
		return "The number of records is public, because the sampling rate or the normaliser follows from it."
	case ledger.AddRemove:
		text := "This assumes that the number of records, from which the sampling rate or the normaliser follows, is a declared constant and does not come from the data."
		if truncated {
			text += " It covers data sets of at most that number of records, because lots are truncated."
		}
		return text
	}
	return ""
}

// hasPolicy reports whether some lots were sampled by a policy.
func hasPolicy(h ledger.History, policy ledger.Policy) bool {
	return slices.ContainsFunc(h.Lots, func(s ledger.RepeatedLot) bool { return s.Lot.Sampling.Policy == policy })
}

// describeSecret describes what an adversary wants to learn.
func describeSecret(adjacency ledger.Adjacency, unit string) string {
	switch adjacency {
	case ledger.ReplaceOne:
		return "which of two candidates for " + unit + " was in the data"
	case ledger.ZeroOut:
		return "whether " + unit + " was in the data or was blank"
	}
	return "whether " + unit + " was in the data"
}

// describeAccountant describes an accountant's method and cites its source.
func describeAccountant(name string) string {
	switch name {
	case "pld":
		return "by composing privacy-loss distributions (connect-the-dots, Doroshenko et al. 2022)"
	case "rdp":
		return "by Rényi differential privacy (Mironov et al. 2019; conversion of Canonne et al. 2020)"
	case "moments":
		return "by the moments accountant (Abadi et al. 2016)"
	case "gdp":
		return "by the central-limit approximation of Gaussian differential privacy (Bu et al. 2020), which may understate it"
	case "tcdp":
		return "by truncated concentrated differential privacy (Bun et al. 2018)"
	case "zcdp":
		return "by zero-concentrated differential privacy (Bun and Steinke 2016)"
	case "strong":
		return "by strong composition (Dwork et al. 2010)"
	case "naive":
		return "by adding up the cost of the steps"
	}
	return "by the " + name + " accountant"
}

// describeSampling describes how the records of a lot were chosen.
func describeSampling(h ledger.History) string {
	s := h.Lots[0].Lot.Sampling
	for _, spent := range h.Lots {
		if spent.Lot.Sampling != s {
			return "took a lot of the records, not always chosen in the same way"
		}
	}
	records := "records"
	if n := max(s.Records, h.Header.Records); n > 0 {
		records = fmt.Sprintf("%d records", n)
	}
	switch s.Policy {
	case ledger.Poisson:
		return fmt.Sprintf("drew each of the %s independently with probability %s", records, number.Short(s.Rate))
	case ledger.Truncated:
		return fmt.Sprintf("drew each of the %s independently with probability %s and used at most %d of them, chosen uniformly", records, number.Short(s.Rate), s.LotSize)
	case ledger.FixedSize:
		return fmt.Sprintf("drew %d of the %s without replacement", s.LotSize, records)
	case ledger.Shuffle:
		return fmt.Sprintf("took the next %d of the %s in a random order", s.LotSize, records)
	}
	return "took all of the " + records
}

// describeNoise describes the noise that was added to the sums.
func describeNoise(h ledger.History) string {
	kinds := map[ledger.Mechanism]string{
		ledger.Gaussian:         "Gaussian noise",
		ledger.RoundedGaussian:  "correctly rounded Gaussian noise",
		ledger.DiscreteGaussian: "discrete Gaussian noise",
		ledger.Laplace:          "Laplace noise",
		ledger.DiscreteLaplace:  "discrete Laplace noise",
		ledger.PermuteAndFlip:   "random choices by permute-and-flip",
	}
	first := h.Lots[0].Lot.Queries
	kind := kinds[first[0].Mechanism]
	groups := 0 // of the lot with most: not every lot releases every metric
	for _, spent := range h.Lots {
		groups = max(groups, len(spent.Lot.Queries))
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
	case groups > 1:
		return fmt.Sprintf("%s (%d groups, with a joint noise multiplier of %s)", kind, groups, ValueRange(low, high))
	}
	return fmt.Sprintf("%s (noise multiplier %s)", kind, ValueRange(low, high))
}

// DeltaWarning warns about a δ for which a mechanism may publish a record in full (Dwork
// and Roth 2014, section 2.3). It returns "" for a smaller δ.
func DeltaWarning(delta float64, records int) string {
	if delta*float64(records) < 1 {
		return ""
	}
	return fmt.Sprintf("δ = %s is not below 1/%d, one over the number of records, so a mechanism that publishes one record in full satisfies this guarantee", number.RoundUp(delta), records)
}

// weakEpsilon is the ε above which practitioners call a guarantee weak to none (Ponomareva et al.
// 2023, "How to DP-fy ML", on the choice of ε: at most 1 is strong, at most 10 is reasonable).
const weakEpsilon = 10

// EpsilonWarning warns about an ε that hardly limits what an adversary learns. It returns "" for
// an ε of at most 10.
func EpsilonWarning(epsilon float64) string {
	if epsilon <= weakEpsilon {
		return ""
	}
	return fmt.Sprintf("ε = %s is above %d, where a guarantee is weak to none (Ponomareva et al. 2023)", number.RoundUp(epsilon), weakEpsilon)
}

// The names of arithmetic, as in run.json.
const (
	ExactArithmetic = "exact"
	FloatArithmetic = "float"
)

// Arithmetic returns how a history was released: ExactArithmetic if every release has a
// guarantee about the released bits, and FloatArithmetic otherwise.
func Arithmetic(h ledger.History) string {
	if len(h.RealGroups()) > 0 {
		return FloatArithmetic
	}
	return ExactArithmetic
}

const (
	exactSentence = "The guarantee holds for the released bits. Every sum is a sum of integers whose norms were checked in integers, and its noise is a correctly rounded Gaussian or has an exact discrete distribution."
	floatSentence = "The guarantee is proved over the reals; it does not cover the rounding of the floating-point sums and noise."
)

// ArithmeticMeaning states in a clause what a guarantee is about.
func ArithmeticMeaning(arithmetic string) string {
	if arithmetic == ExactArithmetic {
		return "the guarantee holds for the released bits"
	}
	return "the guarantee is proved over the reals, not for rounded sums and noise"
}

// describeArithmetic states what the guarantee is about: the released bits or real numbers.
func describeArithmetic(h ledger.History) string {
	inexact := h.RealGroups()
	switch {
	case len(inexact) == 0:
		return exactSentence
	case !slices.ContainsFunc(h.Lots, func(s ledger.RepeatedLot) bool {
		return slices.ContainsFunc(s.Lot.Queries, func(q ledger.Query) bool { return q.Mechanism.IsExact() })
	}):
		return floatSentence
	}
	return floatSentence + " These were used for the releases of " + strings.Join(inexact, ", ") + "; all other releases are integer sums with correctly rounded or discrete noise."
}

const insecureSentence = "The randomness came from a seed, so the guarantee holds only against an adversary who neither knows nor guesses the seed."

// Statement is the paragraph on privacy for a paper or a model card: the guarantee, what it
// protects, the mechanism, how it was accounted, and what is not covered (after Ponomareva
// et al. 2023, "How to DP-fy ML", section 5.3). It describes a history and an accountant's
// answer to it.
func Statement(h ledger.History, a accountant.Guarantee) string {
	if len(h.Lots) == 0 {
		return "Nothing that depends on the training data was released."
	}
	training, others := splitTraining(h)
	guarantee := "and satisfies (ε, δ)-differential privacy with ε ="
	if a.Approximate {
		guarantee = "for which an approximation, which is not a proven bound, gives (ε, δ)-differential privacy with ε ≈"
	}
	sentences := []string{
		fmt.Sprintf("The model was trained with DP-SGD %s %s and δ = %s, in the central model, for neighbouring data sets that differ by %s.",
			guarantee, number.RoundUp(a.Epsilon), number.RoundUp(a.Delta), describeDifference(a.Adjacency, DescribeUnit(h.Header.Unit))),
	}
	if s := explainAdjacency(a.Adjacency, training); s != "" {
		sentences = append(sentences, s)
	}
	if len(training.Lots) > 0 {
		steps := "The only step"
		if n := training.LotCount(); n > 1 {
			steps = fmt.Sprintf("Each of the %d steps", n)
		}
		sentences = append(sentences, fmt.Sprintf("%s %s, clipped the gradient of each and released their sum with %s.", steps, describeSampling(training), describeNoise(training)))
	}
	sentences = append(sentences,
		fmt.Sprintf("The cost of all steps together was computed %s; the guarantee covers the release of every intermediate model.", describeAccountant(a.Accountant)))
	for _, spent := range others {
		records := "all records"
		if n := spent.Lot.Sampling.Records; n > 0 {
			records = fmt.Sprintf("%d records", n)
		}
		for _, q := range spent.Lot.Queries {
			sentences = append(sentences, fmt.Sprintf("The cost includes %s of %s over %s, with noise of %s times its sensitivity.",
				plural(spent.Count, "release"), q.Group, records, number.Short(q.Noise/q.Sensitivity)))
		}
	}
	sentences = append(sentences, describeArithmetic(h))
	if !h.Header.Secure {
		sentences = append(sentences, insecureSentence)
	}
	if a.Note != "" {
		sentences = append(sentences, a.Note)
	}
	if w := DeltaWarning(a.Delta, h.Header.Records); w != "" {
		sentences = append(sentences, "The "+w+".")
	}
	sentences = append(sentences, "The guarantee does not cover choices made by inspecting the private data outside of training, such as hyperparameter tuning.")
	return strings.Join(sentences, " ")
}
