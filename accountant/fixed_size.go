package accountant

import (
	"fmt"
	"math"
	"strconv"

	"github.com/dptrain/dptrain/internal/dpevent"
)

// Lots of a fixed size, drawn without replacement, under replace-one adjacency.
//
// What is proven for any two data sets and any adaptive sequence of queries is the
// symmetric curve of a replacing pair (Zhu, Dong and Wang 2022, proposition 30): budgets
// are held to that, a Filter's too. What is published, and what the pld accountant
// answers, is the curve of one pair: the sampled mixture against the base, at twice the
// sensitivity, each direction by itself. It is what data lose whose other records
// all contribute as one of the two candidates does. It is no bound for any data:
// candidates on either side of all others can lose a little more, where lots hold
// nearly all records (a test has such data). An answer has the proven figure beside it.

const (
	provenNote             = "What is published holds for data whose other records all contribute as one of the two candidates does; the proven bound for any data is %s %s (Zhu, Dong and Wang 2022)."
	withoutReplacementNote = "The bound of Wang, Balle and Kasiviswanathan (2019) is taken at the sensitivity of one record, as it is published, and never below the pld answer."
)

// isPublished tells that m answers for lots of a fixed size as is published.
func (s composed) isPublished(m method) bool {
	return dpevent.AnyFixedSize(s.Events) && (m.name == "pld" || m.name == "rdp")
}

// asSymmetric is s at what is proven of lots of a fixed size.
func (s composed) asSymmetric() composed {
	s.symmetric = true
	return s
}

// addProven puts what is proven for any data beside a published figure that is below it.
func (a *Guarantee) addProven(asked string, published, proven float64) {
	if proven > published {
		a.ProvenBound = proven
		a.addNote(fmt.Sprintf(provenNote, asked, formatUp(proven)))
	}
}

// formatUp is a positive number in six digits that are not below it.
func formatUp(x float64) string {
	text := strconv.FormatFloat(x, 'g', 6, 64)
	if near, _ := strconv.ParseFloat(text, 64); near < x {
		text = strconv.FormatFloat(near+math.Pow(10, math.Floor(math.Log10(x))-5), 'g', 6, 64)
	}
	return text
}
