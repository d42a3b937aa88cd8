package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
)

// candidates returns the settings of the search: flags that people try by hand, for n records.
func candidates(n int, number bool) (list []string) {
	rates := []float64{0.02, 0.05, 0.1}
	if number {
		rates = []float64{0.005, 0.02, 0.05}
	}
	part := func(k int) int { return max(1, n/k) }
	add := func(format string, values ...any) { list = append(list, fmt.Sprintf(format, values...)) }
	for _, lots := range []string{fmt.Sprintf("--lot %d --epochs 30", part(4)), fmt.Sprintf("--lot %d --steps 100", n)} {
		for _, rate := range rates {
			for _, clip := range []float64{0.3, 1, 3} {
				add("--model logistic %s --optimizer adam --lr %v --clip %v --ema 0.9", lots, rate, clip)
			}
		}
	}
	for _, rate := range rates[1:] {
		add("--model logistic --lot %d --epochs 30 --optimizer adam --lr %v --clipping normalized --ema 0.9", part(4), rate)
		add("--model logistic --lot %d --epochs 30 --optimizer momentum --lr %v --clip 1", part(4), 5*rate)
		for _, clip := range []float64{0.3, 1} {
			add("--model mlp:64 --lot %d --epochs 50 --optimizer adam --lr %v --clip %v --ema 0.9", part(8), rates[0]*rate/rates[1], clip)
		}
	}
	add("--model mlp:32,act=tanh --lot %d --epochs 30 --optimizer adam --lr %v --clip 1 --ema 0.9", part(4), rates[0])
	add("--model mlp:64 --lot %d --epochs 25 --optimizer adam --lr %v --clip 0.5", part(16), rates[0]/2)
	add("--model mlp:128 --lot %d --epochs 50 --optimizer adam --lr %v --clip 1 --ema 0.9", part(8), rates[0]/2)
	add("--model mlp:64,act=tanh --lot %d --epochs 15 --optimizer momentum --lr %v --clip 1", part(40), 10*rates[1]/(1+9*float64(btoi(number))))
	add("--model mlp:64 --lot %d --epochs 15 --optimizer momentum --lr %v --clip 1", part(40), 10*rates[1]/(1+9*float64(btoi(number))))
	return list
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// round is a part of the search: the best settings of the round before have this number of runs in all.
type round struct{ settings, runs int }

// largeTable is the number of training records from which the search is cheap.
const largeTable = 50000

// rounds returns the rounds of a search on n records, whose first one gives each setting tries runs.
func rounds(n, tries int) []round {
	settings := len(candidates(n, false))
	if n >= largeTable {
		return []round{{settings, 1}, {4, 3}}
	}
	return []round{{settings, tries}, {6, 4 * tries}}
}

// search returns the setting with the highest mean score on the test data. It is too optimistic for
// a private run, which cannot look at them; this favors the search.
func (b *bench) search(s *splits, epsilon float64) (string, error) {
	type candidate struct {
		setting string
		sum     float64
		runs    int
	}
	var list []*candidate
	for _, setting := range candidates(s.n, s.table.number) {
		list = append(list, &candidate{setting: setting})
	}
	best := func(a, b *candidate) int { return cmp.Compare(b.sum/float64(b.runs), a.sum/float64(a.runs)) }
	for _, round := range rounds(s.n, b.searchRuns) {
		list = list[:min(round.settings, len(list))]
		for _, c := range list {
			for ; c.runs < round.runs; c.runs++ {
				r, err := b.train(s, c.runs%b.runs, epsilon, c.setting)
				if err != nil {
					return "", fmt.Errorf("%s: %w", c.setting, err)
				}
				c.sum += r.Score
			}
		}
		slices.SortFunc(list, best)
	}
	fmt.Fprintf(os.Stderr, "%s, ε = %v: best of the search: %s\n", s.table.name, epsilon, list[0].setting)
	return list[0].setting, nil
}
