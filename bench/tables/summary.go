package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// lead is by how much the default is better than another program on a row of the table.
type lead struct {
	table           *table
	epsilon         float64
	mean, deviation float64
}

// lead compares the default with another program on the splits that both have with the same schema.
func (b *bench) lead(t *table, epsilon float64, other string) (lead, bool) {
	budget := epsilon
	if other == "baseline" {
		budget = 0
	}
	theirs := map[int]float64{}
	for _, r := range b.results {
		if r.Table == t.name && r.Program == other && r.Epsilon == budget {
			theirs[r.Run] = r.Score
		}
	}
	var differences []float64
	for _, r := range b.results {
		if score, both := theirs[r.Run]; both && r.Table == t.name && r.Program == "default" && r.Epsilon == epsilon {
			differences = append(differences, r.Score-score)
		}
	}
	if len(differences) == 0 {
		return lead{}, false
	}
	mean, deviation := meanAndError(differences)
	return lead{t, epsilon, mean, deviation}, true
}

// point is the difference that counts: a percent of accuracy, or a hundredth of the squared error.
const point = 0.01

// writeSummary counts the rows on which the default is ahead of another program, and lists the others.
func (b *bench) writeSummary(m *strings.Builder, other string) {
	var rows, ahead, close int
	var behind []lead
	for _, t := range b.list {
		for _, epsilon := range b.budgets() {
			d, ok := b.lead(t, epsilon, other)
			if !ok {
				continue
			}
			rows++
			switch {
			case d.mean >= 0:
				ahead++
			case other == "search" && d.mean > -point:
				close++
			default:
				behind = append(behind, d)
			}
		}
	}
	name := map[string]string{"search": "the best of the search", "baseline": "the majority or the mean"}[other]
	if name == "" {
		name = other
	}
	fmt.Fprintf(m, "- Against %s (%d rows): at least as good on %d", name, rows, ahead)
	if other == "search" {
		fmt.Fprintf(m, ", less than a point behind on %d", close)
	}
	fmt.Fprintf(m, ", behind on %d", len(behind))
	slices.SortFunc(behind, func(x, y lead) int { return cmp.Compare(x.mean, y.mean) })
	for i, d := range behind {
		mark := ": "
		if i > 0 {
			mark = "; "
		}
		fmt.Fprintf(m, "%s%s, ε = %v, by %.1f ± %.1f", mark, d.table.name, d.epsilon, -100*d.mean, 100*d.deviation)
	}
	m.WriteString(".\n")
}
