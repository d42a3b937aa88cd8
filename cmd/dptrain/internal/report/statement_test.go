package report

import (
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
)

func TestFormats(t *testing.T) {
	for got, want := range map[string]string{
		powerOfTen(1e-5):              "10⁻⁵",
		powerOfTen(2.5e-7):            "2.5·10⁻⁷",
		powerOfTen(3e12):              "3·10¹²",
		powerOfTen(0.5):               "0.5",
		powerOfTen(1.2341):            "1.24",
		ValueRange(1, 1.00001):        "1",
		ValueRange(1, 2):              "1 to 2",
		percent(0.99996) + percent(1): "99.99%100.00%",
		percent(0.29):                 "29.00%",
		plural(1, "lot"):              "1 lot",
		number.Short((&summary{rundir.Summary{Lots: rundir.Lots{Records: 100, Steps: 5, ExpectedLot: 30}}}).epochs()):                      "1.5",
		number.Short((&summary{rundir.Summary{Lots: rundir.Lots{Records: 100, Steps: 5, ExpectedLot: 30, Sampling: "shuffle"}}}).epochs()): "1.3",
		plural(1200, "lot"):                        "1\u202f200 lots",
		duration(59.94):                            "59.9 s",
		duration(3599):                             "59 min 59 s",
		duration(7380):                             "2 h 3 min",
		speed(7194.7):                              "7\u202f195 examples/s",
		speed(0.4321):                              "0.43 examples/s",
		shortUnit("example"):                       "an example",
		shortUnit("user"):                          "a user",
		shortUnit("microbatch:8"):                  "8 examples",
		DescribeUnit("user"):                       "all examples of one user",
		DescribeUnit("user:name"):                  "all examples of one user (one value of name)",
		DescribeUnit("microbatch:8"):               "one microbatch of 8 examples",
		DescribeUnit("microbatch"):                 "one microbatch",
		AccountantName("someone's"):                "someone's",
		budgetShare(0.00009) + budgetShare(1-1e-6): "< 0.1%> 99.9%",
		markdown("a<b>|c_d\n# `e` [f](g)&"):        `a&lt;b\>\|c\_d \# \` + "`e\\` " + `\[f\](g)&amp;`,
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestStatement(t *testing.T) {
	header := ledger.Header{Unit: "example", Records: 500, Adjacency: ledger.ReplaceOne, Secure: true}
	of := func(s ledger.Sampling, groups ...ledger.Query) ledger.Lot {
		return ledger.Lot{Sampling: s, Queries: groups}
	}
	gaussian := ledger.Query{Group: "all", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 2}
	discrete, laplace, more := gaussian, gaussian, gaussian
	discrete.Mechanism, laplace.Mechanism, more.Noise = ledger.DiscreteGaussian, ledger.Laplace, 3
	rounded := ledger.RoundedQuery("all", 1, 2, 1<<22)
	moments := gaussian
	moments.Group, moments.Noise = secondMoments, 7
	fixed := ledger.Sampling{Policy: ledger.FixedSize, LotSize: 20, Records: 500}
	shuffle := ledger.Sampling{Policy: ledger.Shuffle, LotSize: 20, Records: 500}
	every := ledger.Sampling{Policy: ledger.FullBatch}
	answer := accountant.Guarantee{Epsilon: 1.23456789, Delta: 1e-5, Accountant: "rdp", Adjacency: ledger.ReplaceOne}
	for _, test := range []struct {
		lots []ledger.RepeatedLot
		want []string
	}{
		{[]ledger.RepeatedLot{{Lot: of(fixed, gaussian), Count: 3}}, []string{"and satisfies (ε, δ)-differential privacy with ε = 1.23457 and δ = 1e-5", "replacing one training example by another", "Each of the 3 steps drew 20 of the 500 records without replacement", "Gaussian noise (noise multiplier 2)", "by Rényi differential privacy"}},
		{[]ledger.RepeatedLot{{Lot: of(shuffle, gaussian, gaussian), Count: 3}}, []string{"and satisfies (ε, δ)-differential privacy with ε", "took the next 20 of the 500 records in a random order", "2 groups, with a joint noise multiplier of 1.414"}},
		{[]ledger.RepeatedLot{{Lot: of(every, discrete), Count: 1}}, []string{"took all of the 500 records", "with discrete Gaussian noise"}},
		{[]ledger.RepeatedLot{{Lot: of(every, laplace), Count: 1}}, []string{"with Laplace noise (noise multiplier 2)", floatSentence}},
		{[]ledger.RepeatedLot{{Lot: of(every, laplace, laplace), Count: 1}}, []string{"with Laplace noise."}},
		{[]ledger.RepeatedLot{{Lot: of(fixed, ledger.DiscreteLaplaceQuery("all", 1, 3<<22, 1<<22)), Count: 3}}, []string{"with discrete Laplace noise (noise multiplier 3)", exactSentence}},
		{[]ledger.RepeatedLot{{Lot: of(every, ledger.Query{Group: "choice", Mechanism: ledger.PermuteAndFlip, Sensitivity: 1, Noise: 3}), Count: 1}}, []string{"random choices by permute-and-flip.", exactSentence}},
		{[]ledger.RepeatedLot{{Lot: of(fixed, rounded), Count: 3}}, []string{"with correctly rounded Gaussian noise (noise multiplier 2)", exactSentence}},
		{[]ledger.RepeatedLot{{Lot: of(fixed, rounded), Count: 3}, {Lot: of(fixed, gaussian), Count: 3}}, []string{floatSentence + " These were used for the releases of all; all other"}},
		{[]ledger.RepeatedLot{{Lot: of(fixed, gaussian), Count: 3}, {Lot: of(fixed, more), Count: 1}}, []string{"Each of the 4 steps", "noise multiplier 2 to 3"}},
		{[]ledger.RepeatedLot{{Lot: of(fixed, gaussian), Count: 3}, {Lot: of(shuffle, gaussian), Count: 1}}, []string{"not always chosen in the same way"}},
		{[]ledger.RepeatedLot{{Lot: of(fixed, gaussian), Count: 3}, {Lot: of(ledger.Sampling{Policy: ledger.FullBatch, Records: 40}, more), Count: 1}},
			[]string{"Each of the 3 steps drew 20 of", "noise multiplier 2)", "includes 1 release of all over 40 records, with noise of 3 times"}},
		{[]ledger.RepeatedLot{{Lot: of(every, moments), Count: 1}, {Lot: of(fixed, gaussian), Count: 3}},
			[]string{"Each of the 3 steps drew 20 of", "noise multiplier 2)", "includes 1 release of second moments over all records, with noise of 7 times"}},
	} {
		got := Statement(ledger.History{Header: header, Lots: test.lots}, answer)
		requireContains(t, "the statement", got, test.want...)
		requireLacks(t, "the statement", got, insecureSentence)
	}
	published := answer
	published.Published, published.Note = 1.1, "The published epsilon holds only for some data."
	requireContains(t, "the statement", Statement(ledger.History{Header: header, Lots: []ledger.RepeatedLot{{Lot: of(fixed, gaussian), Count: 3}}}, published),
		"and satisfies (ε, δ)-differential privacy with ε = 1.23457 and δ = 1e-5", published.Note)
	approximate := answer
	approximate.Accountant, approximate.Approximate = "gdp", true
	approximated := Statement(ledger.History{Header: header, Lots: []ledger.RepeatedLot{{Lot: of(fixed, gaussian), Count: 3}}}, approximate)
	requireContains(t, "the statement", approximated, "for which an approximation, which is not a proven bound, gives (ε, δ)-differential privacy with ε ≈ 1.23457 and δ = 1e-5")
	requireLacks(t, "the statement", approximated, "satisfies", "published analysis")
	// This run was stopped between its projection and its first lot.
	got := Statement(ledger.History{Header: header, Lots: []ledger.RepeatedLot{{Lot: of(every, moments), Count: 2}}}, answer)
	requireContains(t, "the statement", got, "includes 2 releases of second moments")
	requireLacks(t, "the statement", got, "steps took", "steps drew")
	for _, name := range accountant.Names() {
		if describeAccountant(name) == "by the "+name+" accountant" {
			t.Errorf("%s has no description", name)
		}
	}
}

// A report states once whether the guarantee is about the released bits or about real numbers.
func TestStatement_NamesArithmetic(t *testing.T) {
	every := ledger.Sampling{Policy: ledger.FullBatch}
	answer := accountant.Guarantee{Epsilon: 1, Delta: 1e-5, Accountant: "pld", Adjacency: ledger.ZeroOut}
	real := ledger.Query{Group: "gradient", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 2}
	exact := ledger.RoundedQuery("counts", 0.5, 2, 1)
	for _, test := range []struct {
		queries     []ledger.Query
		arithmetic  string
		want, lacks string
	}{
		{[]ledger.Query{exact}, ExactArithmetic, exactSentence, floatSentence},
		{[]ledger.Query{real}, FloatArithmetic, floatSentence, exactSentence},
		{[]ledger.Query{real, exact}, FloatArithmetic, floatSentence + " These were used for the releases of gradient;", exactSentence},
	} {
		h := ledger.History{Header: ledger.Header{Unit: "example", Records: 9, Adjacency: ledger.ZeroOut, Secure: true},
			Lots: []ledger.RepeatedLot{{Lot: ledger.Lot{Sampling: every, Queries: test.queries}, Count: 1}}}
		if got := Arithmetic(h); got != test.arithmetic {
			t.Errorf("%+v: arithmetic %s", test.queries, got)
		}
		text := Statement(h, answer)
		requireContains(t, "the statement", text, test.want)
		requireLacks(t, "the statement", text, test.lacks)
	}
}
