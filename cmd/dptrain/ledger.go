package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/budget"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/flags"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/selection"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

func newLedger(term *terminal.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Show, verify and account for the ledger of a run",
		Long: `A ledger lists everything that a run released. Each entry is written before its release,
and each line contains the hash of the line before. A lot is one release. The directions of
a projection and a validation are releases too, and count like lots here. FILE is a ledger
or a run directory. accountant/ledger/FORMAT.md describes the format.`,
		Example: `  dptrain ledger show runs/mnist
  dptrain ledger epsilon runs/mnist/ledger.jsonl --delta 1e-5
  dptrain ledger epsilon runs/mnist runs/mnist-copy --delta 1e-5
  dptrain ledger epsilon runs/north runs/south --delta 1e-5 --parallel --disjoint
  dptrain ledger verify runs/mnist/ledger.jsonl`,
	}
	groupSubcommands(cmd)
	cmd.AddCommand(newLedgerShow(term), newLedgerEpsilon(term), newLedgerVerify(term))
	return cmd
}

// ledgerListing is the JSON output of ledger show.
type ledgerListing struct {
	Unit      string           `json:"unit"`
	Records   int              `json:"records"`
	Adjacency ledger.Adjacency `json:"adjacency"`
	Secure    bool             `json:"secure"`
	Steps     int              `json:"steps"`
	Runs      int              `json:"runs"`
	Entries   int              `json:"entries"`
	Ended     bool             `json:"ended"`
	Truncated bool             `json:"cut_short"` // the last line is; it counts as the most that it may have stated
	Head      string           `json:"head"`
	Run       string           `json:"run,omitempty"`     // the run's identifier
	Weights   string           `json:"weights,omitempty"` // SHA-256 of the released weights
	Budget    string           `json:"budget,omitempty"`  // identity of the project budget that counts the cost
	Lots      []repeatedLot    `json:"spent"`
}

type repeatedLot struct {
	Count int `json:"lots"`
	ledger.Lot
}

func newLedgerShow(term *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:     "show FILE",
		Short:   "List the releases in a ledger",
		Example: "  dptrain ledger show runs/mnist\n  dptrain ledger show runs/mnist/ledger.jsonl --json",
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := readLedger(args)
			if err != nil {
				return err
			}
			h, s := f.history.Header, f.summary
			listing := ledgerListing{h.Unit, h.Records, h.Adjacency, h.Secure, f.history.LotCount(),
				s.Runs, s.Entries, s.Ended, f.truncated, s.Head, s.Run, s.Weights, s.Budget, []repeatedLot{}}
			for _, lot := range f.history.Lots {
				listing.Lots = append(listing.Lots, repeatedLot{lot.Count, lot.Lot})
			}
			return term.Print(listing, strconv.Itoa(listing.Steps), listing.print)
		},
	}
}

func (l *ledgerListing) print(w io.Writer) {
	generator := "cryptographic"
	if !l.Secure {
		generator = "INSECURE: seeded or not cryptographic, for experiments only"
	}
	fmt.Fprintf(w, "unit of privacy\t%s\n", l.Unit)
	fmt.Fprintf(w, "records\t%d\n", l.Records)
	fmt.Fprintf(w, "adjacency\t%s\n", l.Adjacency)
	fmt.Fprintf(w, "generator\t%s\n", generator)
	fmt.Fprintf(w, "releases\t%d in %s\n", l.Steps, number.Plural(l.Runs, "run"))
	fmt.Fprintf(w, "state\t%s\n", describeState(l.Ended, l.Truncated))
	fmt.Fprintf(w, "head\t%s\n", l.Head)
	fmt.Fprintf(w, "run\t%s\n", l.Run)
	if l.Weights != "" {
		fmt.Fprintf(w, "weights (SHA-256)\t%s\n", l.Weights)
	}
	if l.Budget != "" {
		fmt.Fprintf(w, "project budget\t%s\n", l.Budget)
	}
	fmt.Fprintf(w, "\nreleases\tsampling\tgroup\tmechanism\tsensitivity\tnoise%s\n", l.latticeColumns("\tlattice\tgrid"))
	first := 1
	for _, lot := range l.Lots {
		interval := strconv.Itoa(first)
		if lot.Count > 1 {
			interval = fmt.Sprintf("%d–%d", first, first+lot.Count-1)
		}
		first += lot.Count
		sampling := describeSampling(lot.Sampling)
		for _, q := range lot.Queries {
			lattice := ""
			if q.Lattice > 0 {
				lattice = fmt.Sprintf("\t%d\t%d", q.Lattice, q.Grid)
			}
			fmt.Fprintf(w, "%s\t%s\t%q\t%s\t%g\t%g%s\n", interval, sampling, q.Group, q.Mechanism, q.Sensitivity, q.Noise, lattice)
			interval, sampling = "", ""
		}
	}
}

// latticeColumns returns the header if some query has a lattice.
func (l *ledgerListing) latticeColumns(header string) string {
	for _, lot := range l.Lots {
		for _, q := range lot.Queries {
			if q.Lattice > 0 {
				return header
			}
		}
	}
	return ""
}

func describeSampling(s ledger.Sampling) string {
	switch s.Policy {
	case ledger.Poisson:
		return fmt.Sprintf("poisson, rate %g", s.Rate)
	case ledger.Truncated:
		return fmt.Sprintf("truncated, rate %g, at most %d of %d", s.Rate, s.LotSize, s.Records)
	case ledger.FullBatch:
		return "every record"
	}
	return fmt.Sprintf("%s, %d of %d", s.Policy, s.LotSize, s.Records)
}

func newLedgerEpsilon(term *terminal.Terminal) *cobra.Command {
	var deltas []float64
	var name, adjacency, out string
	var parallel, disjoint, curve bool
	cmd := &cobra.Command{
		Use:   "epsilon FILE...",
		Short: "Compute the ε that one or more ledgers spent",
		Long: `Computes the ε of all releases in a ledger together. Without --delta, δ is the largest
power of ten that is at most 1/(10·N), where N is the number of records.

With several ledgers about the same people, it computes the ε of all of them together. Copies
of one ledger count once. If a run directory was copied and both copies were resumed, the
ledgers are forks: their common releases count once, and those of each fork are added.
Unrelated ledgers are added. The answer lists the copies and forks that it found. A private
selection (dptrain tune) is added too; the rdp accountant then accounts for all of them.

If each person is in the data of only one of the ledgers, the ε of each person is that of this
ledger, and --parallel computes the largest. dptrain cannot check this, so --parallel requires
the declaration --disjoint. Ledgers of one run, and selections, are refused.

--adjacency replace-one states the guarantee for data sets in which a record is replaced by any
other one; ε is then larger. zero-out and add-remove hold where the sampling permits them.

--curve prints ε after each test result of the run, for each δ: accuracy over ε, as in figure 4
of Abadi et al. 2016.`,
		Example: `  dptrain ledger epsilon runs/mnist --delta 1e-5
  dptrain ledger epsilon runs/mnist runs/mnist-copy --delta 1e-5
  dptrain ledger epsilon runs/mnist/ledger.jsonl --accountant rdp --json
  dptrain ledger epsilon runs/mnist --delta 1e-5 --adjacency replace-one
  dptrain ledger epsilon runs/mnist --delta 1e-3,1e-5 --curve --accountant moments --out figure4.csv`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := exitcode.CheckChoice("accountant", name, accountant.Names()); err != nil {
				return err
			}
			delta := 0.0
			for _, d := range deltas {
				if err := budget.CheckDelta(d); err != nil {
					return err
				}
				delta = d
			}
			if adjacency != "" {
				if err := exitcode.CheckChoice("adjacency", adjacency, adjacencies); err != nil {
					return err
				}
			}
			single := len(args) == 1
			if single {
				_, isSelection := selection.FindLedger(args[0])
				single = !isSelection
			}
			switch {
			case len(deltas) > 1 && !curve:
				return exitcode.Usagef("--delta has %d values: add --curve, or give one", len(deltas))
			case (curve || adjacency != "") && !single:
				return exitcode.Usagef("--curve and --adjacency are for the ledger of one run: name one, or drop them")
			case out != "" && !curve:
				return exitcode.Usagef("--out is the file of --curve: add --curve, or drop --out")
			case out != "" && filepath.Ext(out) != ".csv":
				return exitcode.Usagef("--out %s: the name ends in .csv", out)
			case curve:
				return printLedgerCurves(term, args, deltas, adjacency, name, out)
			case parallel && !disjoint:
				return exitcode.Usagef("--parallel requires --disjoint: declare with it that each person is in the data of only one of these ledgers; otherwise drop --parallel")
			case disjoint && !parallel:
				return exitcode.Usagef("--disjoint has no meaning without --parallel: add it, or drop --disjoint")
			case parallel && len(args) < 2:
				return exitcode.Usagef("--parallel is for several ledgers: name at least two, or drop it")
			case parallel:
				return printParallelEpsilon(term, args, delta, name)
			}
			if len(args) > 1 {
				return printJointEpsilon(term, args, delta, name)
			}
			if len(args) == 1 {
				if path, ok := selection.FindLedger(args[0]); ok {
					return printSelectionEpsilon(term, path, delta, name)
				}
			}
			return printLedgerEpsilon(term, args, delta, adjacency, name)
		},
	}
	cmd.Flags().Float64SliceVar(&deltas, "delta", nil, "the δ of (ε, δ), between 0 and 1; with --curve several, separated by commas")
	cmd.Flags().StringVar(&adjacency, "adjacency", "", "how data sets differ that the guarantee makes indistinguishable: "+flags.Alternatives(adjacencies)+" (default: as the ledger states)")
	cmd.Flags().BoolVar(&curve, "curve", false, "ε over the lots of the run, with its results on public test data, for each δ")
	cmd.Flags().StringVar(&out, "out", "", "with --curve: a .csv file to write")
	flags.Complete(cmd, "adjacency", adjacencies)
	cmd.Flags().BoolVar(&parallel, "parallel", false, "the ledgers are about different people: compute the largest ε instead of the sum; requires --disjoint")
	cmd.Flags().BoolVar(&disjoint, "disjoint", false, "declare that each person is in the data of only one of the ledgers")
	addAccountantFlag(cmd, &name)
	return cmd
}

// ledgerGroup summarises the releases of one group. If its lots differ, it has the largest
// sensitivity and the smallest noise.
type ledgerGroup struct {
	Group       string           `json:"group"`
	Mechanism   ledger.Mechanism `json:"mechanism"`
	Sensitivity float64          `json:"sensitivity"`
	Noise       float64          `json:"noise"`
	Lots        int              `json:"lots"`
}

// printLedgerEpsilon accounts for the ledger that the arguments name. A delta of 0 selects
// the default.
func printLedgerEpsilon(term *terminal.Terminal, args []string, delta float64, adjacency, name string) error {
	f, err := readLedger(args)
	if err != nil {
		return err
	}
	if err := setAdjacency(&f.history, adjacency); err != nil {
		return err
	}
	h := f.history.Header
	if delta == 0 {
		delta = accountant.DefaultDelta(h.Records)
	}
	guarantee, err := accountant.Epsilon(f.history, delta, name)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	v := struct {
		budget.Guarantee
		RunAccountant string        `json:"run_accountant,omitempty"` // if the run used another one
		Steps         int           `json:"steps"`
		Unit          string        `json:"unit"`
		Records       int           `json:"records"`
		Secure        bool          `json:"secure"`
		Ended         bool          `json:"ended"`
		Groups        []ledgerGroup `json:"groups"`
	}{budget.NewGuarantee(guarantee), "", f.history.LotCount(), h.Unit, h.Records, h.Secure, f.summary.Ended, []ledgerGroup{}}
	for _, g := range report.Groups(f.history) {
		v.Groups = append(v.Groups, ledgerGroup{g.Name, g.Mechanism, g.MaxSensitivity, g.MinNoise, g.Lots})
	}
	if used, head := readRunSummary(f.path); head == f.summary.Head && used != guarantee.Accountant {
		v.RunAccountant = used
	}
	if !v.Ended {
		term.Warn("state of the ledger: %s", describeState(false, f.truncated))
	}
	if !h.Secure {
		term.Warn("this ledger is insecure: its noise or sampling was seeded or not cryptographic; the ε holds only against adversaries who cannot guess the random numbers")
	}
	warnAboutEpsilon(term, guarantee.Epsilon)
	warnAboutDelta(term, delta, h.Records)
	return term.Print(v, budget.FormatBound(v.Epsilon, v.Approximate), func(w io.Writer) {
		v.Print(w, budget.Epsilon)
		if v.RunAccountant != "" {
			fmt.Fprintf(w, "the run used\t%s (its own ε: --accountant %s)\n", v.RunAccountant, v.RunAccountant)
		}
		fmt.Fprintf(w, "releases\t%d\n", v.Steps)
		fmt.Fprintf(w, "unit of privacy\t%s\n", v.Unit)
	})
}

func newLedgerVerify(term *terminal.Terminal) *cobra.Command {
	var head string
	var against []string
	cmd := &cobra.Command{
		Use:     "verify FILE",
		Short:   "Check that no line of a ledger was changed, dropped, moved or cut",
		Long:    helpOf("ledger-verify").long,
		Example: helpOf("ledger-verify").examples,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(against) > 0 && len(args) > 1 { // --against A B
				against, args = append(against, args[1:]...), args[:1]
			}
			path, err := findLedger(args)
			if err != nil {
				return err
			}
			summary, err := ledger.Verify(path)
			if err == nil {
				err = checkRunDirectory(path, head, summary)
			}
			var compared []comparedLedgers
			if err == nil && len(against) > 0 {
				compared, err = compareWith(path, against)
			}
			v := struct {
				OK      bool   `json:"ok"`
				Entries int    `json:"entries"`
				Head    string `json:"head"`
				Steps   int    `json:"steps"`
				Runs    int    `json:"runs"`
				Ended   bool   `json:"ended"`
				Line    int    `json:"line,omitempty"` // the first damaged line
				Why     string `json:"why,omitempty"`
				Run     string `json:"run,omitempty"`
				Weights string `json:"weights,omitempty"` // SHA-256 of the released weights

				Against []comparedLedgers `json:"against,omitempty"`
			}{err == nil, summary.Entries, summary.Head, summary.Lots, summary.Runs, summary.Ended,
				0, "", summary.Run, summary.Weights, compared}
			if err != nil {
				v.Why = err.Error()
				if damage := (*ledger.DamageError)(nil); errors.As(err, &damage) {
					v.Line, v.Why = damage.Line, damage.Reason
				}
				if term.JSON && exitcode.Of(err) == exitcode.Damaged {
					return errors.Join(err, term.Print(v, "", nil))
				}
				return err
			}
			return term.Print(v, "ok", func(w io.Writer) {
				fmt.Fprintf(w, "ok\t%s, %s, %s\n", number.Plural(v.Entries, "line"), number.Plural(v.Steps, "release"), number.Plural(v.Runs, "run"))
				fmt.Fprintf(w, "state\t%s\n", describeState(v.Ended, false))
				fmt.Fprintf(w, "head\t%s\n", v.Head)
				fmt.Fprintf(w, "run\t%s\n", v.Run)
				if v.Weights != "" {
					fmt.Fprintf(w, "weights (SHA-256)\t%s\n", v.Weights)
				}
				for _, c := range v.Against {
					fmt.Fprintf(w, "against\t%s\n", c)
				}
			})
		},
	}
	cmd.Flags().StringVar(&head, "head", "", "the expected hash of the last line")
	cmd.Flags().StringArrayVar(&against, "against", nil, "compare with another ledger, to find forks of one run (repeatable)")
	return cmd
}
