package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// write writes the table of means and the file of scores.
func (b *bench) write() error {
	if b.out == "" {
		return nil
	}
	text, err := json.MarshalIndent(b.results, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.scores(), append(text, '\n'), 0o644); err != nil {
		return err
	}
	var m strings.Builder
	m.WriteString("# Defaults on tables\n\n`go run ./bench/tables` writes this file. Mean accuracy on a random fifth, or mean squared error on [-1, 1] where the target is a number, ± the standard error of the mean, × the number of runs. δ = " + delta + ". An asterisk marks tables that the rules were not fitted on.\n\n")
	fmt.Fprintf(&m, "The search takes the best of %d settings by their results on the test data. Tries are the runs of each setting; the best few have more, as the column states. The difference is that on the splits that both have.\n\n", len(candidates(1000, false)))
	m.WriteString("Schemas are those of `dptrain schema --public` for the whole table, with the scales that it proposes for skewed columns; the other programs read the same scales.\n\n")
	m.WriteString("| table (records for training) | majority or mean | ε | default | best of the search | tries | default − search | " + strings.Join(peers, " | ") + " |\n|---|---|---|---|---|---|---|" + strings.Repeat("---|", len(peers)) + "\n")
	for _, t := range b.list {
		for _, epsilon := range b.budgets() {
			if b.count(t, "default", epsilon) == 0 {
				continue
			}
			b.writeRow(&m, t, epsilon)
		}
	}
	m.WriteString("\n## In short\n\nMean differences on the splits that both have, ± the standard error, in points of accuracy or hundredths of the squared error.\n\n")
	for _, other := range append([]string{"search", "baseline"}, peers...) {
		b.writeSummary(&m, other)
	}
	return os.WriteFile(b.out, []byte(m.String()), 0o644)
}

func (b *bench) writeRow(m *strings.Builder, t *table, epsilon float64) {
	name := t.name
	if t.held {
		name += "*"
	}
	base, _ := b.mean(t, "baseline", 0)
	fmt.Fprintf(m, "| %s (%d) | %.3f | %v | ", name, (len(t.rows)-1)*4/5, math.Abs(base), epsilon)
	fmt.Fprintf(m, "%s | %s | %s | ", b.cell(t, "default", epsilon), b.cell(t, "search", epsilon), b.tries(t, epsilon))
	if d, ok := b.lead(t, epsilon, "search"); ok {
		fmt.Fprintf(m, "%+.3f ± %.3f", d.mean, d.deviation)
	}
	for _, peer := range peers {
		fmt.Fprintf(m, " | %s", b.cell(t, peer, epsilon))
	}
	m.WriteString(" |\n")
}

// budgets returns every ε that a score has.
func (b *bench) budgets() (list []float64) {
	for _, r := range b.results {
		if r.Epsilon > 0 && !slices.Contains(list, r.Epsilon) {
			list = append(list, r.Epsilon)
		}
	}
	slices.Sort(list)
	return list
}

// tries returns how often the search tried each setting.
func (b *bench) tries(t *table, epsilon float64) string {
	for _, r := range b.results {
		if r.Table == t.name && r.Program == "search" && r.Epsilon == epsilon && r.Tries > 0 {
			last := rounds((len(t.rows)-1)*4/5, r.Tries)[1]
			return fmt.Sprintf("%d; best %d: %d", r.Tries, last.settings, last.runs)
		}
	}
	return ""
}

func (b *bench) scoresOf(t *table, program string, epsilon float64) (scores, aucs []float64) {
	for _, r := range b.results {
		if r.Table == t.name && r.Program == program && r.Epsilon == epsilon {
			scores = append(scores, r.Score)
			if r.AUC > 0 {
				aucs = append(aucs, r.AUC)
			}
		}
	}
	return scores, aucs
}

func (b *bench) count(t *table, program string, epsilon float64) int {
	scores, _ := b.scoresOf(t, program, epsilon)
	return len(scores)
}

func (b *bench) mean(t *table, program string, epsilon float64) (mean, deviation float64) {
	scores, _ := b.scoresOf(t, program, epsilon)
	return meanAndError(scores)
}

// meanAndError returns the mean and its standard error.
func meanAndError(x []float64) (mean, deviation float64) {
	n := float64(len(x))
	for _, v := range x {
		mean += v / n
	}
	for _, v := range x {
		deviation += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(deviation / max(1, n-1) / n)
}

// cell formats a mean score with its error and, for two classes, the mean AUC.
func (b *bench) cell(t *table, program string, epsilon float64) string {
	scores, aucs := b.scoresOf(t, program, epsilon)
	if len(scores) == 0 {
		return "·"
	}
	mean, deviation := meanAndError(scores)
	text := fmt.Sprintf("%.3f ± %.3f × %d", math.Abs(mean), deviation, len(scores))
	if len(aucs) > 0 {
		auc, _ := meanAndError(aucs)
		text += fmt.Sprintf(", AUC %.3f", auc)
	}
	return text
}
