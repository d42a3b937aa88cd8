package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/budget"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/flags"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

func newBudget(term *terminal.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "budget",
		Short: "Plan a private run: its cost, or its settings for a given cost",
		Long: `Relates the five quantities of a private run: noise, steps, sampling rate, ε and δ.
Each command computes one of them from the others. Printed values are rounded so that
"budget epsilon" with these values never exceeds the target. For lots of a fixed size
ε is the one that is proven for any data; the smaller published ε has its own line.`,
		Example: `  dptrain budget epsilon --rate 0.01 --noise 4 --steps 10000 --delta 1e-5
  dptrain budget noise --records 60000 --lot 600 --epochs 60 --epsilon 2
  dptrain budget compare --rate 0.01 --noise 4 --steps 10000 --delta 1e-5`,
	}
	groupSubcommands(cmd)
	cmd.AddCommand(
		newBudgetSolve(term, budget.Epsilon, "Compute the ε that a run spends",
			"  dptrain budget epsilon --rate 0.01 --noise 4 --steps 10000 --delta 1e-5\n"+
				"  dptrain budget epsilon --records 60000 --lot 600 --epochs 60 --groups 1:4,0.5:2 --accountant rdp\n"+
				"  dptrain budget epsilon --records 60000 --lot 600 --sampling truncated --max-lot 700 --epochs 60 --noise 4\n"+
				"  dptrain budget epsilon --sampling none --mechanism laplace --noise 20 --steps 10 --delta 1e-5\n"+
				"  dptrain budget epsilon --rate 0.01 --noise 4 --steps 10000 --delta 1e-5 --accountant moments --asymptotic"),
		newBudgetSolve(term, budget.Noise, "Compute the least noise that keeps a run within ε",
			"  dptrain budget noise --records 60000 --lot 600 --epochs 60 --epsilon 2\n"+
				"  dptrain budget noise --records 60000 --lot 600 --epochs 60 --epsilon 2 --groups 1:4,0.5:2\n"+
				"  dptrain budget noise --records 60000 --lot 600 --epochs 60 --epsilon 2 --groups 1/5000,0.5/20 --allocation dimension\n"+
				"  dptrain budget noise --records 60000 --lot 600 --epochs 2 --epsilon 2 --mechanism laplace\n"+
				"  dptrain budget noise --rate 0.04 --steps 2000 --epsilon 8 --delta 1e-5 --quiet"),
		newBudgetSolve(term, budget.Steps, "Compute the largest number of steps within ε",
			"  dptrain budget steps --rate 0.01 --noise 1 --epsilon 2 --delta 1e-5"),
		newBudgetSolve(term, budget.Rate, "Compute the largest sampling rate within ε",
			"  dptrain budget rate --noise 1 --steps 10000 --epsilon 2 --delta 1e-5\n"+
				"  dptrain budget rate --sampling fixed --records 60000 --noise 4 --steps 1000 --epsilon 2 --accountant rdp"),
		newBudgetSolve(term, budget.Delta, "Compute the δ that a run spends at a given ε",
			"  dptrain budget delta --rate 0.01 --noise 4 --steps 10000 --epsilon 1"),
		newBudgetCompare(term), newBudgetCurve(term), newBudgetStatement(term),
		newBudgetOpen(term), newBudgetLeft(term), newBudgetOdometer(term), newBudgetSpend(term), newBudgetLocal(term))
	return cmd
}

// newBudgetRequest gives cmd the flags of a plan, from which it computes unknown.
func newBudgetRequest(cmd *cobra.Command, unknown budget.Quantity) *budget.Request {
	f := cmd.Flags()
	r := &budget.Request{Unknown: unknown, Given: f.Changed}
	f.Float64Var(&r.Rate, "rate", 0, "the probability that a record is in a lot")
	f.IntVar(&r.Records, "records", 0, "the number of records in the data")
	f.IntVar(&r.Lot, "lot", 0, "the size of a lot, or its expected size")
	f.IntVar(&r.MaxLot, "max-lot", 0, "with --sampling truncated: the largest number of records in a lot (default: the smallest that a lot exceeds with a probability of at most 1e-10)")
	f.IntVar(&r.Steps, "steps", 0, "the number of lots")
	f.Float64Var(&r.Epochs, "epochs", 0, "the average number of times that each record is drawn; replaces --steps")
	f.Float64Var(&r.Noise, "noise", 0, "the noise multiplier: standard deviation over sensitivity")
	f.StringVar(&r.Mechanism, "mechanism", budget.Mechanisms[0], "the noise: "+flags.Alternatives(budget.Mechanisms)+"; of laplace, --noise is the scale over the bound on the ℓ₁ norm, as in train")
	groups := "the sensitivity and noise of each group, as S1:σ1,S2:σ2,…; replaces --noise"
	if unknown == budget.Noise {
		groups = "the sensitivity and noise of each group, as S1:σ1,S2:σ2,…: all σ are multiplied by the same factor, so only their ratios count; noise is then that of all groups together, (Σ(S/σ)²)^-½, and each group has a line"
	}
	f.StringVar(&r.Groups, "groups", "", groups)
	f.StringVar(&r.Allocation, "allocation", "", "divide the noise of all groups together as train does: "+flags.Alternatives(budget.Allocations)+"; --groups then has the sensitivities S1,S2,…, or S1/D1,S2/D2,… with the numbers of weights")
	f.Float64Var(&r.Delta, "delta", 0, "the δ of (ε, δ); by default the largest power of ten that is at most 1/(10·N), where N is --records")
	f.Float64Var(&r.Epsilon, "epsilon", 0, "the ε of (ε, δ)")
	f.StringVar(&r.Sampling, "sampling", budget.Policies[0], "how lots are drawn: "+flags.Alternatives(budget.Policies))
	f.StringVar(&r.Adjacency, "adjacency", "", "how neighbouring data sets differ: "+flags.Alternatives(budget.Adjacencies)+" (default: zero-out with --records, otherwise add-or-remove-one)")
	for _, name := range budget.UnknownFlags(unknown) {
		f.Lookup(name).Hidden = true // still parsed, for a better error
	}
	if unknown == budget.Rate {
		f.Lookup("epochs").Hidden = true // depends on the rate
	}
	flags.Complete(cmd, "sampling", budget.Policies)
	flags.Complete(cmd, "allocation", budget.Allocations)
	flags.Complete(cmd, "adjacency", budget.Adjacencies)
	flags.Complete(cmd, "mechanism", budget.Mechanisms)
	return r
}

func newBudgetSolve(term *terminal.Terminal, unknown budget.Quantity, short, example string) *cobra.Command {
	var name string
	var asymptotic bool
	cmd := &cobra.Command{Use: string(unknown), Short: short, Long: short + ".", Example: example, Args: noArguments}
	request := newBudgetRequest(cmd, unknown)
	addAccountantFlag(cmd, &name)
	if unknown == budget.Epsilon {
		cmd.Flags().BoolVar(&asymptotic, "asymptotic", false, "with --accountant moments: use the asymptotic bound of Abadi et al. 2016, which may understate ε")
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := exitcode.CheckChoice("accountant", name, accountant.Names()); err != nil {
			return err
		}
		if asymptotic && name != "moments" {
			return exitcode.Usagef("--asymptotic requires --accountant moments")
		}
		plan, err := request.Plan()
		if err != nil {
			return err
		}
		var solution budget.Solution
		if asymptotic {
			solution, err = budget.SolveAsymptotic(plan, request.Delta)
		} else {
			solution, err = budget.Solve(unknown, plan, request.Epsilon, request.Delta, name)
		}
		if err != nil {
			return err
		}
		warnAboutEpsilon(term, float64(solution.Epsilon))
		warnAboutDelta(term, float64(solution.Delta), solution.Records)
		return term.Print(solution, solution.Value(unknown), func(w io.Writer) { solution.Print(w, unknown) })
	}
	return cmd
}

func newBudgetCompare(term *terminal.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Compare the ε of a run by every accountant",
		Long: `Computes the ε of one run by every accountant. The smallest ε holds, except where a
remark states that it is an approximation, which "≈" marks, or that a published ε is smaller.
The gdp accountant has no result for Laplace noise.`,
		Example: "  dptrain budget compare --rate 0.01 --noise 4 --steps 10000 --delta 1e-5",
		Args:    noArguments,
	}
	request := newBudgetRequest(cmd, budget.Epsilon)
	cmd.RunE = func(*cobra.Command, []string) error {
		plan, err := request.Plan()
		if err != nil {
			return err
		}
		comparison, err := budget.Compare(plan, request.Delta)
		if err != nil {
			return err
		}
		return term.Print(comparison, comparison.Bare(), comparison.Print)
	}
	return cmd
}

func newBudgetCurve(term *terminal.Terminal) *cobra.Command {
	var out string
	var names []string
	var points int
	cmd := &cobra.Command{
		Use:   "curve",
		Short: "Draw ε against steps for each accountant",
		Long: `Draws the ε that a run has spent after each number of steps, as a picture (.svg or .png)
or as a table (.csv). With --epochs the axis counts epochs.`,
		Example: `  dptrain budget curve --rate 0.01 --noise 4 --steps 10000 --delta 1e-5 --out cost.svg

  # Figure 2 of Abadi et al. 2016: the moments accountant and strong composition
  dptrain budget curve --rate 0.01 --noise 4 --epochs 400 --delta 1e-5 --accountants strong,moments --out figure2.png`,
		Args: noArguments,
	}
	request := newBudgetRequest(cmd, budget.Epsilon)
	cmd.Flags().StringVar(&out, "out", "", "the file to write; its name ends in "+flags.Alternatives(budget.ChartFormats))
	cmd.Flags().StringSliceVar(&names, "accountants", accountant.Names(), "accountants to draw, separated by commas")
	cmd.Flags().IntVar(&points, "points", 100, "the largest number of points of a curve")
	flags.Complete(cmd, "accountants", accountant.Names())
	cmd.RunE = func(*cobra.Command, []string) error {
		for _, name := range names {
			if err := exitcode.CheckChoice("accountants", name, accountant.Names()); err != nil {
				return err
			}
		}
		plan, err := request.Plan()
		if err != nil {
			return err
		}
		if !request.Given("accountants") {
			names = budget.AccountantsOf(plan)
		}
		if out == "" {
			return exitcode.Usagef("--out is missing: give a file name that ends in %s", flags.Alternatives(budget.ChartFormats))
		}
		format := strings.ToLower(filepath.Ext(out))
		if err := exitcode.CheckChoice("out: file name ending", format, budget.ChartFormats); err != nil {
			return err
		}
		if points < 2 || points > 10000 {
			return exitcode.Usagef("--points %d is out of range: give 2 to 10000", points)
		}
		curves, err := budget.ComputeCurves(plan, request.Delta, names, points, request.Given("epochs"))
		if err != nil {
			return err
		}
		curves.Out = out
		file, err := curves.Render(format)
		if err != nil {
			return err
		}
		if err := os.WriteFile(out, file, 0o644); err != nil {
			return exitcode.Usagef("--out: %w; choose a file that can be written", err)
		}
		return term.Print(curves, out, func(w io.Writer) {
			fmt.Fprintf(w, "wrote %s: ε at δ = %s after %d steps\n", out, number.RoundUp(curves.Delta), plan.Steps)
			for _, curve := range curves.Curves {
				fmt.Fprintf(w, "%s\t%s\t%s\n", curve.Accountant, budget.FormatBound(number.Float(curve.Last()), curve.Approximate), curve.Note)
			}
		})
	}
	return cmd
}

func newBudgetStatement(term *terminal.Terminal) *cobra.Command {
	var name, record, arithmetic string
	cmd := &cobra.Command{
		Use:   "statement",
		Short: "Write the paragraph on privacy for a paper or a model card",
		Long: `Writes one paragraph for readers who judge a private run: the guarantee, what it
protects, the mechanism, how it was accounted, and what is not covered (after Ponomareva
et al. 2023, "How to DP-fy ML", section 5.3).`,
		Example: "  dptrain budget statement --records 60000 --lot 600 --epochs 100 --noise 4\n  dptrain budget statement --records 60000 --lot 600 --epochs 100 --noise 4 --arithmetic exact",
		Args:    noArguments,
	}
	request := newBudgetRequest(cmd, budget.Epsilon)
	addAccountantFlag(cmd, &name)
	cmd.Flags().StringVar(&record, "record", "example", "the unit of privacy: example, microbatch:K or user:COLUMN")
	cmd.Flags().StringVar(&arithmetic, "arithmetic", report.FloatArithmetic, "arithmetic of the run, as its run.json states it: exact or float")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := exitcode.CheckChoice("accountant", name, accountant.Names()); err != nil {
			return err
		}
		if err := exitcode.CheckChoice("arithmetic", arithmetic, []string{report.ExactArithmetic, report.FloatArithmetic}); err != nil {
			return err
		}
		if _, err := settings.ParseRecord(record, 1); err != nil {
			return err
		}
		plan, err := request.Plan()
		if err != nil {
			return err
		}
		solution, err := budget.Solve(budget.Epsilon, plan, 0, request.Delta, name)
		if err != nil {
			return err
		}
		history := plan.History()
		history.Header.Unit, history.Header.Secure = record, true
		exact := ledger.RoundedGaussian
		if solution.Mechanism != "" { // the noise of such a run is always discrete
			arithmetic, exact = report.ExactArithmetic, ledger.DiscreteLaplace
		}
		if arithmetic == report.ExactArithmetic {
			for _, planned := range history.Lots { // the statement needs no lattice
				for i := range planned.Lot.Queries {
					planned.Lot.Queries[i].Mechanism = exact
				}
			}
		}
		text := report.Statement(history, solution.Guarantee.Accounted())
		v := struct {
			Statement string `json:"statement"`
			budget.Solution
		}{text, solution}
		return term.Print(v, text, func(w io.Writer) { fmt.Fprintln(w, text) })
	}
	return cmd
}

// addAccountantFlag defines --accountant.
func addAccountantFlag(cmd *cobra.Command, name *string) {
	names := accountant.Names()
	cmd.Flags().StringVar(name, "accountant", names[0], "the accountant that computes ε: "+flags.Alternatives(names))
	flags.Complete(cmd, "accountant", names)
}

// insecureWarning is printed with the ε of every seeded run.
const insecureWarning = "INSECURE: noise and lots come from --seed; an adversary who knows the seed can subtract the noise"

func warnAboutEpsilon(term *terminal.Terminal, epsilon float64) {
	if w := budget.EpsilonWarning(epsilon); w != "" {
		term.Warn("%s", w)
	}
}

func warnAboutDelta(term *terminal.Terminal, delta float64, records int) {
	if w := budget.DeltaWarning(delta, records); w != "" {
		term.Warn("%s", w)
	}
}
