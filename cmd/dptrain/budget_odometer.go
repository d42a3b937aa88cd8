package main

import (
	"fmt"
	"io"
	"math"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/budget"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

// odometerReading is the output of budget odometer.
type odometerReading struct {
	Epsilon      number.Float  `json:"epsilon"`       // the odometer's
	FixedEpsilon number.Float  `json:"epsilon_fixed"` // of the same lots, if their number and noise were fixed beforehand
	Delta        float64       `json:"delta"`
	Lots         int           `json:"lots"`
	Budget       float64       `json:"budget,omitempty"`
	EpsilonLeft  *number.Float `json:"epsilon_left,omitempty"`
	LotsLeft     *int          `json:"lots_left,omitempty"` // equal to the last one
}

func (r odometerReading) print(w io.Writer) {
	fmt.Fprintf(w, "privacy loss\tat most %s with probability 1 - %s, at every time\n", number.RoundUp(float64(r.Epsilon)), number.RoundUp(r.Delta))
	fmt.Fprintf(w, "lots\t%d; with a number and noise fixed beforehand ε = %s\n", r.Lots, number.RoundUp(float64(r.FixedEpsilon)))
	if r.EpsilonLeft != nil {
		fmt.Fprintf(w, "left\t%s of %s, or %s like the last\n", number.RoundDown(float64(*r.EpsilonLeft)), number.Short(r.Budget), number.Plural(*r.LotsLeft, "lot"))
	}
}

func newBudgetOdometer(term *terminal.Terminal) *cobra.Command {
	var epsilon, delta float64
	cmd := &cobra.Command{
		Use:   "odometer LEDGER",
		Short: "Bound the privacy loss so far, also if the lots were chosen adaptively",
		Long: `Reads a run's ledger with a privacy odometer (Rogers et al. 2016; Whitehouse et al. 2023): with
probability 1 - δ, the privacy loss is at most the shown number at every time, even if noise, bounds
and the number of lots depend on what was released. It exceeds the ε of a fixed number of lots. It
is a statement about the lots that ran, not (ε, δ)-differential privacy with an ε fixed in advance:
for that, a run has the ε of its plan or of its filter. With --epsilon it shows how much of a
budget is left.`,
		Example: "  dptrain budget odometer runs/first --delta 1e-5\n  dptrain budget odometer runs/first/ledger.jsonl --delta 1e-5 --epsilon 3",
		Args: func(_ *cobra.Command, args []string) error {
			_, err := findLedger(args)
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := budget.CheckDelta(delta); err != nil {
				return err
			}
			if cmd.Flags().Changed("epsilon") && (!(epsilon > 0) || math.IsInf(epsilon, 1)) {
				return exitcode.Usagef("--epsilon %v: give a finite budget above 0", epsilon)
			}
			f, err := readLedger(args)
			if err != nil {
				return err
			}
			o, err := accountant.OdometerOf(f.history, delta)
			if err != nil {
				return err
			}
			fixed, err := accountant.Epsilon(f.history, delta, accountant.Default)
			if err != nil {
				return err
			}
			r := odometerReading{Epsilon: number.Float(o.Epsilon()), FixedEpsilon: number.Float(fixed.Epsilon),
				Delta: delta, Lots: f.history.LotCount(), Budget: epsilon}
			if n := len(f.history.Lots); epsilon > 0 && n > 0 {
				left := number.Float(max(0, epsilon-o.Epsilon()))
				lots, err := o.MaxLots(f.history.Lots[n-1].Lot, epsilon)
				if err != nil {
					return err
				}
				r.EpsilonLeft, r.LotsLeft = &left, &lots
			}
			return term.Print(r, number.RoundUp(float64(r.Epsilon)), r.print)
		},
	}
	cmd.Flags().Float64Var(&delta, "delta", 0, "the probability with which the bound may fail")
	cmd.Flags().Float64Var(&epsilon, "epsilon", 0, "a budget: show what is left of it")
	return cmd
}
