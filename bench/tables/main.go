// Command tables compares the default settings of dptrain train on tables with the best of a search
// and with other programs.
//
//	go run ./bench/tables -adult adult.csv
//
// Each run takes another random fifth of a table for testing. The program writes one table of means
// with their standard errors to -out, and every score to a JSON file next to it, each as soon as it is
// known; -add continues with both. It generates fourteen tables itself, eight of them with shapes that
// the rules were not fitted on. Python exports those of scikit-learn and trains the other programs;
// -python "" leaves both out.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// bench is one comparison.
type bench struct {
	out, python, venv, peers, adult string
	flags                           string // of the default
	program                         string // dptrain
	only                            *regexp.Regexp
	programs                        *regexp.Regexp
	runs, searchRuns                int
	epsilons                        []float64
	dir                             string // temporary files
	results                         []result
	list                            []*table // all tables, in the order of the output
}

// result is the score of one run: the accuracy, or the negative squared error on [-1, 1].
type result struct {
	Table   string  `json:"table"`
	Program string  `json:"program"`
	Epsilon float64 `json:"epsilon"`
	Run     int     `json:"run"`
	Score   float64 `json:"score"`
	AUC     float64 `json:"auc,omitempty"` // two classes
	Setting string  `json:"setting,omitempty"`
	Tries   int     `json:"tries,omitempty"` // runs of each setting of the search
}

func main() {
	b := bench{}
	flag.StringVar(&b.out, "out", filepath.Join("bench", "results", "tables.md"), "file for the table; scores go to the same name with .json")
	flag.StringVar(&b.python, "python", "python3", "Python that creates the environment of the other programs; empty: none")
	flag.StringVar(&b.venv, "venv", filepath.Join(os.TempDir(), "dptrain-peers", "tables"), "folder of the virtual environments, created if they are missing; empty: use the packages of -python")
	flag.StringVar(&b.peers, "peers", filepath.Join("bench", "peers"), "folder of the Python scripts")
	flag.StringVar(&b.adult, "adult", "", "CSV file of the Adult data of UCI with a header; empty: left out")
	flag.IntVar(&b.runs, "runs", 10, "runs of the default, of the best setting and of each program")
	flag.IntVar(&b.searchRuns, "search-runs", 2, "runs of each setting of the search; the best six get four times as many; 0: no search; 50,000 records or more: 1, and 3 of the best four")
	only := flag.String("tables", "", "regular expression that selects tables")
	programs := flag.String("programs", "", "regular expression that selects programs: default, search, diffprivlib, opacus, dp-ebm")
	epsilons := flag.String("epsilon", "1,2,8", "budgets, separated by commas")
	flag.StringVar(&b.flags, "flags", "", "more flags of dptrain train for the default, to try other values")
	add := flag.Bool("add", false, "keep the other scores of the JSON file")
	flag.Parse()
	if err := b.main(*only, *programs, *epsilons, *add); err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

func (b *bench) main(only, programs, epsilons string, add bool) (err error) {
	if b.only, err = regexp.Compile(only); err != nil {
		return fmt.Errorf("-tables %s: %w", only, err)
	}
	if b.programs, err = regexp.Compile(programs); err != nil {
		return fmt.Errorf("-programs %s: %w", programs, err)
	}
	for field := range strings.SplitSeq(epsilons, ",") {
		epsilon, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return fmt.Errorf("-epsilon %s: %w", epsilons, err)
		}
		b.epsilons = append(b.epsilons, epsilon)
	}
	if b.dir, err = os.MkdirTemp("", "dptrain-tables-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := b.build(); err != nil {
		return err
	}
	if add {
		text, err := os.ReadFile(b.scores())
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &b.results); err != nil {
			return fmt.Errorf("%s: %w", b.scores(), err)
		}
	}
	if b.list, err = b.tables(); err != nil {
		return err
	}
	for _, t := range b.list {
		if !b.only.MatchString(t.name) {
			continue
		}
		if err := b.compare(t); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return b.write()
}

// scores is the file of all scores.
func (b *bench) scores() string { return strings.TrimSuffix(b.out, ".md") + ".json" }

// compare runs all programs on a table.
func (b *bench) compare(t *table) error {
	s, err := b.split(t)
	if err != nil {
		return err
	}
	for _, epsilon := range b.epsilons {
		if b.programs.MatchString("default") {
			if err := b.repeat(s, result{Program: "default"}, epsilon, b.flags); err != nil {
				return err
			}
		}
		if b.searchRuns > 0 && b.programs.MatchString("search") {
			setting, err := b.search(s, epsilon)
			if err != nil {
				return err
			}
			if err := b.repeat(s, result{Program: "search", Tries: rounds(s.n, b.searchRuns)[0].runs}, epsilon, setting); err != nil {
				return err
			}
		}
	}
	return b.runPeers(s)
}

// add replaces the score of an earlier run.
func (b *bench) add(r result) {
	for i, old := range b.results {
		if old.Table == r.Table && old.Program == r.Program && old.Epsilon == r.Epsilon && old.Run == r.Run {
			b.results[i] = r
			return
		}
	}
	b.results = append(b.results, r)
}
