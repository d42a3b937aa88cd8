package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// detectionSection bounds how many records an attack finds.
type detectionSection struct {
	Sentence   string // the bound at 1% false alarms, in plain words
	Definition string
	Rows       []detectionRow
	Source     string // the curve that the bounds come from
	Mu         string
	AboutMu    string
}

type detectionRow struct {
	Alarms, Found, Width string // Width is that of the bar, of 100
}

// leastError is the smallest error rate to which the bound µ applies.
const leastError = 1e-3

// detectionSection returns nil if there is no proven bound. A run that ended before its plan may have
// ended because of what it released, so its bound follows from the ε of the plan alone.
func (r *Run) detectionSection() *detectionSection {
	a := r.accounting
	if len(a.history.Lots) == 0 {
		return nil
	}
	d := &detectionSection{}
	var curve accountant.TradeOff
	if r.summary.PlannedEpsilon > 0 {
		if a.answer.Approximate || math.IsInf(a.answer.Epsilon, 1) {
			return nil
		}
		curve = accountant.TradeOffOf(a.answer.Epsilon, a.answer.Delta)
		d.Source = "The bounds follow from ε and δ of the whole plan alone, because the run ended before its plan."
		if r.summary.NoiseSchedule != "" {
			d.Source = "The bounds follow from ε and δ of the filter alone, because releases chose the noise."
		}
	} else {
		var err error
		if curve, err = accountant.Compose(a.history).TradeOff(); err != nil {
			return nil // the noise is of a kind that cannot be composed numerically
		}
		d.Source = "The bounds come from the privacy-loss distribution of all releases, which is sharper than ε and δ alone (Dong, Roth and Su 2022)."
		d.Mu, d.AboutMu = describeMu(curve)
	}
	at := func(rate float64) string { return roundedUpPercent(curve.TruePositiveRate(rate)) }
	d.Sentence, d.Definition = describeDetection(a.answer.Adjacency, a.history.Header.Unit, at(0.01))
	if !a.history.Header.Secure {
		d.Definition += " It does not hold for an adversary who knows or guesses the seed."
	}
	for _, rate := range []float64{0.001, 0.01, 0.1} {
		d.Rows = append(d.Rows, detectionRow{roundedUpPercent(rate), at(rate),
			strconv.FormatFloat(100*curve.TruePositiveRate(rate), 'f', 2, 64)})
	}
	return d
}

// describeDetection states the bound at 1% false alarms, and defines both rates.
func describeDetection(adjacency ledger.Adjacency, unit, found string) (sentence, definition string) {
	one := DescribeUnit(unit)
	const anyAttack = " The bound holds for every attack, also for one that knows all other records and every version of the model."
	if adjacency == ledger.ReplaceOne {
		return "An attack that names the wrong one of two candidates for 1% of the records recognises the right one for at most " + found + " of them.",
			"There are two candidates for " + one + ". A false alarm is the answer that the first one was in the data, although the second one was. Found is the same answer where it is right." + anyAttack
	}
	absent, records := "is not in the data", "records"
	if adjacency == ledger.ZeroOut {
		absent = "is blank"
	}
	switch kind, _, _ := strings.Cut(unit, ":"); kind {
	case "user":
		records = "people"
	case "example":
		records = "examples"
	}
	return "At most " + found + " of the " + records + " in the data can be picked out with 1% false alarms.",
		"A false alarm is the answer that " + one + " is in the data, although it " + absent + ". Found is the same answer where it is right." + anyAttack
}

// describeMu states µ of Gaussian differential privacy, and whether it is exact.
func describeMu(curve accountant.TradeOff) (mu, about string) {
	value, exact := curve.Mu(leastError)
	least := roundedUpPercent(leastError)
	switch {
	case exact:
		return roundedUp(value, 4) + ", exact", " µ is exact: all releases together are one Gaussian release whose mean moves by µ standard deviations."
	case math.IsInf(value, 1):
		return "no bound for error rates of " + least + " or more", ""
	}
	return "at most " + roundedUp(value, 3) + ", for error rates of " + least + " or more",
		" µ is an upper bound from the same distribution: at error rates of " + least + " or more no attack does better than the best attack on one Gaussian release whose mean moves by µ standard deviations."
}

// roundedUpPercent writes a share with two digits, rounded up, and 100% at most.
func roundedUpPercent(share float64) string {
	return roundedUp(min(100, 100*share), 2) + "%"
}

// roundedUp rounds a number up, except where it is above a shorter one by its own rounding error.
func roundedUp(x float64, digits int) string { return number.Round(x*(1-1e-12), 1, digits) }

// deltaAgainstRecords compares δ with one over the number of records.
func (r *Run) deltaAgainstRecords() (value, about string) {
	n := r.accounting.history.Header.Records
	if n == 0 {
		return "", ""
	}
	return fmt.Sprintf("δ · n = %s, for n = %s records", roundedUp(r.accounting.answer.Delta*float64(n), 2), number.Thousands(n)),
		"δ · n should be well below 1: a mechanism that publishes each record in full with probability δ satisfies the same δ, and publishes δ · n records on average."
}
