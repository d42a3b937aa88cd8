package accountant

import (
	"fmt"
	"math"
	"slices"
	"strconv"
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
	fixedNote = "Lots of a fixed size are accounted under replace-one adjacency, because they make the number of records public."
	fixedHint = "What is published holds for data whose other records all contribute as one of the two candidates does; the proven bound for any data is %s %s (Zhu, Dong and Wang 2022)."
	wangNote  = "The bound of Wang, Balle and Kasiviswanathan (2019) is taken at the sensitivity of one record, as it is published, and never below the pld answer."
)

// fixed tells that some event is a lot of a fixed size.
func (s spending) fixed() bool {
	return slices.ContainsFunc(s.events, func(e counted) bool { return e.fixed })
}

// published tells that m answers for lots of a fixed size as is published.
func (s spending) published(m method) bool {
	return s.fixed() && (m.name == "pld" || m.name == "rdp")
}

// asProven is s at what is proven of lots of a fixed size.
func (s spending) asProven() spending {
	s.proven = true
	return s
}

// prove puts what is proven for any data beside a published figure that is below it.
func (a *Guarantee) prove(asked string, published, proven float64) {
	if proven > published {
		a.ProvenBound = proven
		a.addNote(fmt.Sprintf(fixedHint, asked, writtenUp(proven)))
	}
}

// writtenUp is a positive number in six digits that are not below it.
func writtenUp(x float64) string {
	text := strconv.FormatFloat(x, 'g', 6, 64)
	if near, _ := strconv.ParseFloat(text, 64); near < x {
		text = strconv.FormatFloat(near+math.Pow(10, math.Floor(math.Log10(x))-5), 'g', 6, 64)
	}
	return text
}

// wang is theorem 27 of Wang, Balle and Kasiviswanathan 2019, "Subsampled Rényi
// Differential Privacy and Analytical Moments Accountant", in its strengthened form
// for Gaussians, whose terms are moments of the likelihood ratio less one.
type wang struct {
	rate, shift float64
	logMoments  map[int]float64
}

// rdp interpolates order·divergence between whole orders (corollary 10).
func (w *wang) rdp(order float64) float64 {
	below := math.Floor(order)
	low := w.logMoment(int(below))
	if order == below {
		return low / (order - 1)
	}
	part := order - below
	return ((1-part)*low + part*w.logMoment(int(below)+1)) / (order - 1)
}

// logMoment is (order-1) times the bound on the divergence.
func (w *wang) logMoment(order int) float64 {
	base := func(j int) float64 { return float64(j) * float64(j-1) * w.shift * w.shift / 2 }
	sum := math.Inf(-1)
	for j := 2; j <= order; j++ {
		term := math.Ln2 + base(j)
		switch {
		case j == 2:
			term = min(term, math.Log(4)+logExpm1(base(2)))
		case order <= 256:
			even := (w.excess(j/2*2) + w.excess((j+1)/2*2)) / 2
			term = min(term, math.Log(4)+even)
		}
		sum = logAdd(sum, term+logChoose(float64(order), float64(j))+float64(j)*math.Log(w.rate))
	}
	return logAdd(0, sum)
}

// excess is log E (e^y - 1)^power for an even power, y the loss of the Gaussian, or
// infinite where the shift is absurd.
func (w *wang) excess(power int) float64 {
	if value, seen := w.logMoments[power]; seen {
		return value
	}
	total := math.Inf(-1)
	step := min(0.5, 0.5/w.shift)
	if (float64(power)*w.shift+26)/step > 1e6 { // too many points; the other bound will do
		return math.Inf(1)
	}
	for x := -13.0; x <= float64(power)*w.shift+13; x += step {
		y := w.shift*x - w.shift*w.shift/2
		one := y // log |e^y - 1|
		if y < 30 {
			one = math.Log(math.Abs(math.Expm1(y)))
		}
		total = logAdd(total, float64(power)*one-x*x/2)
	}
	total += math.Log(step) - math.Log(2*math.Pi)/2
	w.logMoments[power] = total
	return total
}

// publishedRDP is rdpOf with Wang's bound for lots of a fixed size: the function
// returned remembers its moments.
func publishedRDP() func(event, float64) float64 {
	known := map[[2]float64]*wang{}
	return func(e event, order float64) float64 {
		if !e.fixed || !e.sampled() || !e.pureGaussian() || order > 1024 {
			return rdpOf(e, order)
		}
		key := [2]float64{e.rate, e.gaussian}
		if known[key] == nil {
			known[key] = &wang{rate: e.rate, shift: e.gaussian / 2, logMoments: map[int]float64{}}
		}
		return known[key].rdp(order)
	}
}
