package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// mostCells is the largest number of classes that a matrix is drawn for.
const mostCells = 30

// confusion says which classes were taken for which on the public test data.
type confusion struct {
	Classes []string // of the columns
	Rows    []confusionRow
	Worst   []mistake // in place of a matrix that would be too large
}

type confusionRow struct {
	Class string
	Cells []cell
	Right string
}

// cell is a count with a heat from 0 to 10: the root of its share of the row, so
// that rare mistakes are seen.
type cell struct {
	Count string
	Heat  int
	Right bool
	Title string
}

type mistake struct {
	Truth, Answer, Count string
}

func (r *Run) confusion() *confusion {
	s := &r.summary
	if len(s.Confusion) == 0 {
		return nil
	}
	if len(s.Confusion) > mostCells {
		return &confusion{Worst: s.mistakes(12)}
	}
	c := &confusion{}
	for j := range s.Confusion[0] {
		c.Classes = append(c.Classes, s.className(j))
	}
	for i, counts := range s.Confusion {
		all := 0
		for _, n := range counts {
			all += n
		}
		line := confusionRow{Class: s.className(i), Right: "–"}
		for j, n := range counts {
			one := cell{Count: Thousands(n), Right: i == j}
			if n > 0 {
				one.Heat = max(1, int(math.Round(10*math.Sqrt(float64(n)/float64(all)))))
			}
			if i != j && n > 0 {
				one.Title = fmt.Sprintf("%d of class %s taken for %s", n, s.className(i), s.className(j))
			}
			line.Cells = append(line.Cells, one)
		}
		if all > 0 {
			share := math.Round(100 * float64(counts[i]) / float64(all))
			if counts[i] < all { // nothing less is 100%
				share = min(share, 99)
			}
			line.Right = fmt.Sprintf("%.0f%%", share)
		}
		c.Rows = append(c.Rows, line)
	}
	return c
}

// mistakes are the most frequent ones.
func (s *summary) mistakes(most int) []mistake {
	type pair struct{ truth, answer, count int }
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
	for _, p := range pairs[:min(most, len(pairs))] {
		worst = append(worst, mistake{s.className(p.truth), s.className(p.answer), Thousands(p.count)})
	}
	return worst
}
