package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// maxMatrixClasses is the largest number of classes for which the counts of the matrix are shown. For
// more there are a picture of the matrix and the most frequent mistakes.
const maxMatrixClasses = 12

// confusionMatrix counts the predictions for each true class on the public test data.
type confusionMatrix struct {
	Classes []string // of the columns
	Rows    []confusionRow
	Worst   []mistake // replaces the rows if there are too many classes
	Picture *matrixPicture
}

// matrixPicture is a matrix without counts. A cell is a square of side 1.
type matrixPicture struct {
	Size  int
	Cells []matrixCells
}

// matrixCells are the cells of one heat, as a path.
type matrixCells struct{ Style, Path string }

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
	Share                    string // of the examples of the class
}

func (r *Run) confusionMatrix() *confusionMatrix {
	s := &r.summary
	if len(s.Confusion) == 0 {
		return nil
	}
	if len(s.Confusion) > maxMatrixClasses {
		return &confusionMatrix{Worst: s.worstMistakes(12), Picture: s.matrixPicture()}
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
			one.Heat = heat(n, total)
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

// heat is the heat of a cell with n of the examples of its row.
func heat(n, total int) int {
	if n == 0 {
		return 0
	}
	return max(1, int(math.Round(10*math.Sqrt(float64(n)/float64(total)))))
}

func (s *summary) matrixPicture() *matrixPicture {
	paths := map[string]*strings.Builder{}
	for i, counts := range s.Confusion {
		total := 0
		for _, n := range counts {
			total += n
		}
		for j, n := range counts {
			h := heat(n, total)
			if h == 0 || j >= len(s.Confusion) {
				continue
			}
			style := fmt.Sprintf("mistakes heat%d", h)
			if i == j {
				style = fmt.Sprintf("hits heat%d", h)
			}
			if paths[style] == nil {
				paths[style] = &strings.Builder{}
			}
			fmt.Fprintf(paths[style], "M%d %dh1v1h-1z", j, i)
		}
	}
	p := &matrixPicture{Size: len(s.Confusion)}
	for _, style := range slices.Sorted(maps.Keys(paths)) {
		p.Cells = append(p.Cells, matrixCells{style, paths[style].String()})
	}
	return p
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
		total := 0
		for _, n := range s.Confusion[p.truth] {
			total += n
		}
		worst = append(worst, mistake{s.className(p.truth), s.className(p.prediction),
			number.Thousands(p.count), fmt.Sprintf("%.0f%%", 100*float64(p.count)/float64(total))})
	}
	return worst
}
