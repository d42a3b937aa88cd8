package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

const (
	maxTableClasses  = 8 // more make a table wider than a terminal
	maxListedMistake = 5
)

// writeConfusion writes the predictions for each true class: a small table, or the most frequent
// mistakes where classes are many.
func writeConfusion(w io.Writer, names []string, confusion [][]int) {
	name := func(i int) string {
		if i < len(names) {
			return names[i]
		}
		return strconv.Itoa(i)
	}
	if len(confusion) > maxTableClasses {
		for i, m := range frequentMistakes(confusion, maxListedMistake) {
			label := "mistakes"
			if i > 0 {
				label = ""
			}
			fmt.Fprintf(w, "%s\t%s of class %s predicted as %s\n", label, number.Plural(m.count, "example"), name(m.truth), name(m.prediction))
		}
		return
	}
	for i, counts := range confusion {
		if i == 0 {
			fmt.Fprint(w, "\nclass")
			for j := range counts {
				fmt.Fprintf(w, "\tpredicted %s", name(j))
			}
			fmt.Fprintln(w)
		}
		fmt.Fprint(w, name(i))
		for _, n := range counts {
			fmt.Fprintf(w, "\t%d", n)
		}
		fmt.Fprintln(w)
	}
}

type classMistake struct{ truth, prediction, count int }

// frequentMistakes returns at most limit of the most frequent mistakes.
func frequentMistakes(confusion [][]int, limit int) (all []classMistake) {
	for i, counts := range confusion {
		for j, n := range counts {
			if i != j && n > 0 {
				all = append(all, classMistake{i, j, n})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b classMistake) int { return cmp.Compare(b.count, a.count) })
	return all[:min(limit, len(all))]
}
