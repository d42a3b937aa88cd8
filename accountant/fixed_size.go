package accountant

import (
	"fmt"
	"math"
	"strconv"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
)

// Lots of a fixed size, drawn without replacement, under replace-one adjacency.
//
// The proven curve is the symmetric hockey-stick curve of a pair in which a record is
// replaced. It holds for any two data sets and any adaptive sequence of queries (Zhu, Dong
// and Wang 2022, proposition 30). Budgets and a Filter use it.
//
// The published curve, which the pld accountant returns, is the curve of one pair: the
// sampled mixture against the base, at twice the sensitivity, each direction separately.
// It holds for data whose other records all contribute the same as one of the two
// candidates. It is not a bound for any data: two candidates on opposite sides of all
// other records can lose slightly more if a lot contains nearly all records (a test has
// such data). A Guarantee therefore states the proven bound, and the published figure only
// as Published.

const (
	provenNote             = "The %[1]s %[2]s is proven for any data (Zhu, Dong and Wang 2022); the published %[1]s %[3]s holds only if every other record contributes the same as one of the two records that are exchanged."
	withoutReplacementNote = "The bound of Wang, Balle and Kasiviswanathan (2019) uses the sensitivity of one record, as published; the result is never below that of pld."
)

// isPublished reports whether m returns the published curve for lots of a fixed size.
func (s composed) isPublished(m method) bool {
	return dpevent.AnyFixedSize(s.Events) && (m.name == "pld" || m.name == "rdp")
}

// asSymmetric returns s with the proven curve for lots of a fixed size.
func (s composed) asSymmetric() composed {
	s.symmetric = true
	return s
}

// prove replaces the published value of a quantity, which is "epsilon" or "delta", by the
// proven bound if that is larger. It keeps the published value as Published.
func (a *Guarantee) prove(quantity string, value *float64, proven float64) {
	if published := *value; proven > published {
		a.Published, *value = published, proven
		a.addNote(fmt.Sprintf(provenNote, quantity, formatUp(proven), formatUp(published)))
	}
}

// formatUp rounds a positive number up to six digits.
func formatUp(x float64) string {
	text := strconv.FormatFloat(x, 'g', 6, 64)
	if rounded, _ := strconv.ParseFloat(text, 64); rounded < x {
		text = strconv.FormatFloat(rounded+math.Pow(10, math.Floor(math.Log10(x))-5), 'g', 6, 64)
	}
	return text
}
