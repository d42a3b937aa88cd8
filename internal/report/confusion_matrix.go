package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/internal/number"
)

// maxMatrixClasses is the largest number of classes for which the whole matrix is shown.
const maxMatrixClasses = 30

// confusionMatrix counts the predictions for each true class on the public test data.
type confusionMatrix struct {
	Classes []string // of the columns
	Rows    []confusionRow
	Worst   []mistake // replaces the rows if there are too many classes
}

type confusionRow struct {
	Class string
	Cells []cell
	Right string
}

// cell is a count with a heat from 0 to 10: the square root of its share of the row, so
// that rare mistakes are visible.
type cell struct {
	Count string
	Heat  int
	Right bool
	Title string
}

type mistake struct {
	Truth, Prediction, Count string
}

func (r *Run) confusionMatrix() *confusionMatrix {
	s := &r.summary
	if len(s.Confusion) == 0 {
		return nil
	}
	if len(s.Confusion) > maxMatrixClasses {
		return &confusionMatrix{Worst: s.worstMistakes(12)}
	}
	c := &confusionMatrix{}
	for j := range s.Confusion[0] {
		c.Classes = append(c.Classes, s.className(j))
	}
	for i, counts := range s.Confusion {
		total := 0
		for _, n := range counts {
			total += n
		}
		line := confusionRow{Class: s.className(i), Right: "–"}
		for j, n := range counts {
			one := cell{Count: number.Thousands(n), Right: i == j}
			if n > 0 {
				one.Heat = max(1, int(math.Round(10*math.Sqrt(float64(n)/float64(total)))))
			}
			if i != j && n > 0 {
				one.Title = fmt.Sprintf("%d of class %s predicted as %s", n, s.className(i), s.className(j))
			}
			line.Cells = append(line.Cells, one)
		}
		if total > 0 {
			share := math.Round(100 * float64(counts[i]) / float64(total))
			if counts[i] < total { // only a row without mistakes is 100%
				share = min(share, 99)
			}
			line.Right = fmt.Sprintf("%.0f%%", share)
		}
		c.Rows = append(c.Rows, line)
	}
	return c
}

// worstMistakes returns the most frequent mistakes.
func (s *summary) worstMistakes(limit int) []mistake {
	type pair struct{ truth, prediction, count int }
	var pairs []pair
	for i, counts := range s.Confusion {
		for j, n := range counts {
			if i != j && n > 0 {
				pairs = append(pairs, pair{i, j, n})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(b.count, a.count) })
	var worst []mistake
	for _, p := range pairs[:min(limit, len(pairs))] {
		worst = append(worst, mistake{s.className(p.truth), s.className(p.prediction), number.Thousands(p.count)})
	}
	return worst
}
