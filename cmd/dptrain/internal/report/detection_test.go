package report

import (
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// The page bounds how many records an attack finds, by the accountant's curve of the ledger.
func TestPage_Detection(t *testing.T) {
	s := newShortFixture()
	page, _ := s.render(t)
	curve, err := accountant.Compose(ledger.History{Header: s.header, Lots: s.lots}).TradeOff()
	if err != nil {
		t.Fatal(err)
	}
	found := roundedUpPercent(curve.TruePositiveRate(0.01))
	mu, _ := describeMu(curve)
	requireContains(t, "the page", page, "At most "+found+" of the examples in the data can be picked out with 1% false alarms.", "<td>1%</td><td>"+found+"</td>",
		"<td>10%</td><td>"+roundedUpPercent(curve.TruePositiveRate(0.1))+"</td>", "<dt>Gaussian µ</dt><dd>"+mu, "µ is an upper bound", "δ · n = 0.6, for n = 60\u202f000 records")

	// Lots without sampling: µ² is the sum of (S/σ)², exactly, and TPR = Φ(Φ⁻¹(0.01) + 0.5) = 3.39%.
	s = newShortFixture()
	l := lot(1, 4)
	l.Sampling = ledger.Sampling{Policy: ledger.FullBatch, Records: 60000}
	s.lots, s.summary["steps"], s.summary["sampling"] = []ledger.RepeatedLot{{Lot: l, Count: 4}}, 4, "full"
	page, _ = s.render(t)
	requireContains(t, "the page", page, "<dt>Gaussian µ</dt><dd>0.5, exact</dd>", "At most 3.4% of the examples")

	s = newShortFixture()
	s.header.Unit, s.header.Adjacency, s.header.Secure = "user:who", ledger.ZeroOut, false
	page, _ = s.render(t)
	requireContains(t, "the page", page, "of the people in the data can be picked out", "although it is blank", "It does not hold for an adversary who knows or guesses the seed.")

	s = newShortFixture()
	s.header.Adjacency = ledger.ReplaceOne
	s.lots[0].Lot.Sampling = ledger.Sampling{Policy: ledger.FixedSize, LotSize: 600, Records: 60000}
	s.lots[0].Lot.Queries[0].Noise = 4
	page, _ = s.render(t)
	requireContains(t, "the page", page, "names the wrong one of two candidates for 1% of the records")
}

// A run that ended before its plan has the bound of the plan's ε: its ledger alone has a smaller one.
func TestPage_DetectionOfEarlyEnd(t *testing.T) {
	s := newShortFixture()
	s.summary["epsilon_planned"] = 3.25
	page, _ := s.render(t)
	found := roundedUpPercent(accountant.TradeOffOf(3.25, 1e-5).TruePositiveRate(0.01))
	requireContains(t, "the page", page, "At most "+found+" of the examples", "follow from ε and δ of the whole plan alone")
	requireLacks(t, "the page", page, "Gaussian µ")

	s = newShortFixture()
	s.summary["epsilon_planned"] = "Infinity"
	page, _ = s.render(t)
	requireLacks(t, "the page", page, "can be picked out")

	s = newShortFixture()
	s.summary["private"] = false
	page, _ = s.render(t)
	requireLacks(t, "the page without privacy", page, "can be picked out", "Gaussian µ", "δ · n")
}
