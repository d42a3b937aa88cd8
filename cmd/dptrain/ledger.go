package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/report"
	"github.com/spf13/cobra"
)

func newLedger(s *screen) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Read, account and verify the ledger of a run",
		Long: `A ledger is the record of everything that a run released. It is written before
each release, each line sealed with the hash of the line before. FILE is a ledger,
or a run's folder. accountant/FORMAT.md describes the format.`,
		Example: `  dptrain ledger show runs/mnist
  dptrain ledger epsilon runs/mnist/ledger.jsonl --delta 1e-5
  dptrain ledger verify runs/mnist/ledger.jsonl`,
	}
	takesCommand(cmd)
	cmd.AddCommand(newLedgerShow(s), newLedgerEpsilon(s), newLedgerVerify(s))
	return cmd
}

// ledgerPath is the one argument of the ledger commands.
func ledgerPath(args []string) (string, error) {
	if len(args) != 1 {
		return "", wrong("name one ledger, such as runs/mnist/ledger.jsonl")
	}
	info, err := os.Stat(args[0])
	if errors.Is(err, fs.ErrNotExist) {
		return "", wrong("%s: there is no such file: check the path", args[0])
	}
	if err != nil {
		return "", wrong("%w", err)
	}
	if _, is := selectionAt(args[0]); is {
		return "", wrong("%s is of a choice among runs, which has no lots of its own: dptrain ledger epsilon accounts for it", args[0])
	}
	if !info.IsDir() {
		return args[0], nil
	}
	file := filepath.Join(args[0], "ledger.jsonl")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", wrong("%s holds no ledger.jsonl: name a ledger, or a run's folder", args[0])
	}
	return file, nil
}

// readLedger reads the ledger that the arguments name.
func readLedger(args []string) (path string, history accountant.History, seal accountant.Report, cutShort bool, err error) {
	if path, err = ledgerPath(args); err != nil {
		return
	}
	if history, err = accountant.Read(path); err != nil {
		return
	}
	// What Read accepts, Verify only finds fault with if its end is cut short.
	seal, damage := accountant.Verify(path)
	return path, history, seal, damage != nil, nil
}

type spentJSON struct {
	Lots int `json:"lots"`
	accountant.Lot
}

func spentOf(h accountant.History) []spentJSON {
	all := []spentJSON{}
	for _, spent := range h.Spent {
		all = append(all, spentJSON{spent.Count, spent.Lot})
	}
	return all
}

type ledgerJSON struct {
	Unit      string               `json:"unit"`
	Records   int                  `json:"records"`
	Adjacency accountant.Adjacency `json:"adjacency"`
	Secure    bool                 `json:"secure"`
	Steps     int                  `json:"steps"`
	Runs      int                  `json:"runs"`
	Entries   int                  `json:"entries"`
	Ended     bool                 `json:"ended"`
	CutShort  bool                 `json:"cut_short"` // the last line is; it counts as the most that it may have stated
	Head      string               `json:"head"`
	Spent     []spentJSON          `json:"spent"`
}

func newLedgerShow(s *screen) *cobra.Command {
	return &cobra.Command{
		Use:     "show FILE",
		Short:   "Print what a ledger says was released",
		Example: "  dptrain ledger show runs/mnist\n  dptrain ledger show runs/mnist/ledger.jsonl --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, history, seal, cutShort, err := readLedger(args)
			if err != nil {
				return err
			}
			h := history.Header
			v := ledgerJSON{h.Unit, h.Records, h.Adjacency, h.Secure, history.Lots(), seal.Runs, seal.Entries,
				seal.Ended, cutShort, seal.Head, spentOf(history)}
			return s.show(v, strconv.Itoa(v.Steps), func(w io.Writer) { printLedger(w, v) })
		},
	}
}

func printLedger(w io.Writer, v ledgerJSON) {
	fmt.Fprintf(w, "unit of privacy\t%s\n", v.Unit)
	fmt.Fprintf(w, "records\t%d\n", v.Records)
	fmt.Fprintf(w, "adjacency\t%s\n", v.Adjacency)
	fmt.Fprintf(w, "generator\t%s\n", secureWords(v.Secure))
	fmt.Fprintf(w, "lots\t%d in %s\n", v.Steps, plural(v.Runs, "run"))
	fmt.Fprintf(w, "state\t%s\n", stateWords(v.Ended, v.CutShort))
	fmt.Fprintf(w, "head\t%s\n", v.Head)
	fmt.Fprintf(w, "\nlots\tsampling\tgroup\tmechanism\tsensitivity\tnoise\n")
	first := 1
	for _, spent := range v.Spent {
		lots := strconv.Itoa(first)
		if spent.Lots > 1 {
			lots = fmt.Sprintf("%d–%d", first, first+spent.Lots-1)
		}
		first += spent.Lots
		sampling := samplingWords(spent.Sampling)
		for _, q := range spent.Queries {
			fmt.Fprintf(w, "%s\t%s\t%q\t%s\t%g\t%g\n", lots, sampling, q.Group, q.Mechanism, q.Sensitivity, q.Noise)
			lots, sampling = "", ""
		}
	}
}

func secureWords(secure bool) string {
	if secure {
		return "cryptographic"
	}
	return "INSECURE: seeded or not cryptographic, for experiments only"
}

func stateWords(ended, cutShort bool) string {
	switch {
	case cutShort:
		return "the last line is cut short, and counted as the most that it may have stated"
	case ended:
		return "ended"
	}
	return "not ended: the run was killed or still runs, or lines are missing at the end"
}

func samplingWords(s accountant.Sampling) string {
	switch s.Policy {
	case accountant.Poisson:
		return fmt.Sprintf("poisson, rate %g", s.Rate)
	case accountant.Every:
		return "every record"
	}
	return fmt.Sprintf("%s, %d of %d", s.Policy, s.Lot, s.Records)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// groupJSON is what a ledger says about one group: where its lots differ, the
// largest sensitivity and the least noise.
type groupJSON struct {
	Group       string               `json:"group"`
	Mechanism   accountant.Mechanism `json:"mechanism"`
	Sensitivity float64              `json:"sensitivity"`
	Noise       float64              `json:"noise"`
	Lots        int                  `json:"lots"`
}

func groupsOf(h accountant.History) []groupJSON {
	groups := []groupJSON{}
	for _, g := range report.Groups(h) {
		groups = append(groups, groupJSON{g.Name, g.Mechanism, g.MostS, g.LeastNoise, g.Lots})
	}
	return groups
}

func newLedgerEpsilon(s *screen) *cobra.Command {
	var delta float64
	var name string
	cmd := &cobra.Command{
		Use:   "epsilon FILE",
		Short: "Account for a ledger: the ε that was spent",
		Long: `Computes the ε that everything in a ledger spent together. Without --delta, δ is
the largest power of ten below one over the number of records.`,
		Example: `  dptrain ledger epsilon runs/mnist --delta 1e-5
  dptrain ledger epsilon runs/mnist/ledger.jsonl --accountant rdp --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("accountant", name, accountant.Names()); err != nil {
				return err
			}
			if !cmd.Flags().Changed("delta") {
				delta = 0
			} else if err := checkDelta(delta); err != nil {
				return err
			}
			if len(args) == 1 {
				if path, is := selectionAt(args[0]); is {
					return s.selectionEpsilon(path, delta, name)
				}
			}
			return s.ledgerEpsilon(args, delta, name)
		},
	}
	cmd.Flags().Float64Var(&delta, "delta", 0, "the δ of (ε, δ), between 0 and 1")
	accountantFlag(cmd, &name)
	return cmd
}

// ledgerEpsilon accounts for the ledger that args name; a delta of 0 is the usual one.
func (s *screen) ledgerEpsilon(args []string, delta float64, name string) error {
	path, history, seal, cutShort, err := readLedger(args)
	if err != nil {
		return err
	}
	if delta == 0 {
		delta = engine.DefaultDelta(history.Header.Records)
	}
	answer, err := accountant.Epsilon(history, delta, name)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	h := history.Header
	v := struct {
		answerJSON
		Used    string      `json:"run_accountant,omitempty"` // where the run's own is another
		Steps   int         `json:"steps"`
		Unit    string      `json:"unit"`
		Records int         `json:"records"`
		Secure  bool        `json:"secure"`
		Ended   bool        `json:"ended"`
		Groups  []groupJSON `json:"groups"`
	}{answerOf(answer), "", history.Lots(), h.Unit, h.Records, h.Secure, seal.Ended, groupsOf(history)}
	if used := usedBy(path, seal.Head); used != answer.Accountant {
		v.Used = used
	}
	if !v.Ended {
		s.note("State of the ledger: %s.", stateWords(false, cutShort))
	}
	if !h.Secure {
		s.note("This ledger is insecure: noise or sampling was seeded or not cryptographic, and the ε holds only against those who cannot guess it.")
	}
	s.warnOfDelta(delta, h.Records)
	return s.show(v, roundUp(answer.Epsilon), func(w io.Writer) {
		v.print(w, "epsilon")
		if v.Used != "" {
			fmt.Fprintf(w, "the run used\t%s (its own ε: --accountant %s)\n", v.Used, v.Used)
		}
		fmt.Fprintf(w, "lots\t%d\n", v.Steps)
		fmt.Fprintf(w, "unit of privacy\t%s\n", v.Unit)
	})
}

// usedBy is the accountant that the run used, by the summary beside its ledger; "" where
// there is none.
func usedBy(ledger, head string) string {
	if name, itsHead := summaryBeside(ledger); itsHead == head {
		return name
	}
	return ""
}

// summaryBeside is what a run's summary says of the ledger beside it.
func summaryBeside(ledger string) (name, head string) {
	var saved struct {
		Accountant string `json:"accountant"`
		Head       string `json:"ledger_head"`
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(ledger), "run.json"))
	if err != nil || json.Unmarshal(text, &saved) != nil {
		return "", ""
	}
	return saved.Accountant, saved.Head
}

// checkSummary finds that a run's ledger lacks the line that was its last when the summary
// was written; a run that was resumed since has others after it.
func checkSummary(ledger string) error {
	_, head := summaryBeside(ledger)
	if head == "" || filepath.Base(ledger) != "ledger.jsonl" {
		return nil
	}
	holds, err := accountant.Holds(ledger, head)
	if err == nil && !holds {
		err = &fault{exitDamaged, fmt.Errorf("%s: it lacks the line whose hash is ledger_head in the run.json beside it, %s: lines are missing at its end, or it is another run's", ledger, head)}
	}
	return err
}

func newLedgerVerify(s *screen) *cobra.Command {
	var head string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check that no line of a ledger was changed, dropped, moved or cut",
		Long: `Checks every line of a ledger against its check value and the hash of the line
before. The exit code is 4 if one is wrong, and the message names it. Lines missing
at the end only show in its head: that in run.json beside a run's ledger is looked
for, and one that you know from elsewhere is given with --head.`,
		Example: `  dptrain ledger verify runs/mnist
  dptrain ledger verify runs/mnist/ledger.jsonl --head 3d204fc9…`,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := ledgerPath(args)
			if err != nil {
				return err
			}
			report, err := accountant.Verify(path)
			if err == nil && head == "" {
				err = checkSummary(path)
			} else if err == nil && head != report.Head {
				err = &fault{exitDamaged, fmt.Errorf("%s: its head is %s, not %s: lines are missing or were added at its end, or it is another run's", path, report.Head, head)}
			}
			v := struct {
				OK      bool   `json:"ok"`
				Entries int    `json:"entries"`
				Head    string `json:"head"`
				Steps   int    `json:"steps"`
				Runs    int    `json:"runs"`
				Ended   bool   `json:"ended"`
				Line    int    `json:"line,omitempty"` // the first that is damaged
				Why     string `json:"why,omitempty"`
			}{err == nil, report.Entries, report.Head, report.Lots, report.Runs, report.Ended, 0, ""}
			if err != nil {
				v.Why = err.Error()
				if damage := (*accountant.Damage)(nil); errors.As(err, &damage) {
					v.Line, v.Why = damage.Line, damage.Why
				}
				if s.json && exitCode(err) == exitDamaged {
					return errors.Join(err, s.show(v, "", nil))
				}
				return err
			}
			return s.show(v, "ok", func(w io.Writer) {
				fmt.Fprintf(w, "ok\t%s, %s, %s\n", plural(v.Entries, "line"), plural(v.Steps, "lot"), plural(v.Runs, "run"))
				fmt.Fprintf(w, "state\t%s\n", stateWords(v.Ended, false))
				fmt.Fprintf(w, "head\t%s\n", v.Head)
			})
		},
	}
	cmd.Flags().StringVar(&head, "head", "", "the hash of the last line, as recorded elsewhere")
	return cmd
}
