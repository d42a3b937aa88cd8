package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/report"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

// curve is ε after each of some numbers of steps, by one accountant.
type curve struct {
	Accountant string         `json:"accountant"`
	Epsilon    []number.Float `json:"epsilon"`
	Note       string         `json:"note,omitempty"` // on the last
}

type curves struct {
	Out    string    `json:"out"`
	Delta  float64   `json:"delta"`
	At     []int     `json:"at"` // steps
	Epochs []float64 `json:"at_epochs"`
	Curves []curve   `json:"curves"`
	planJSON
	inEpochs bool
}

var curveFormats = []string{".svg", ".png", ".csv"}

func newBudgetCurve(term *terminal.Terminal) *cobra.Command {
	var out string
	var names []string
	var points int
	cmd := &cobra.Command{
		Use:   "curve",
		Short: "Draw ε against steps, a line for each accountant",
		Long: `Draws ε as a run goes on, into a picture (.svg or .png) or a table (.csv). With
--epochs the axis counts epochs.`,
		Example: `  dptrain budget curve --rate 0.01 --noise 4 --steps 10000 --delta 1e-5 --out cost.svg

  # Figure 2 of Abadi et al. 2016: what the moments accountant was worth
  dptrain budget curve --rate 0.01 --noise 4 --epochs 400 --delta 1e-5 --accountants strong,moments --out figure2.png`,
		Args: noArguments,
	}
	flags := planFlagsOf(cmd, "epsilon")
	cmd.Flags().StringVar(&out, "out", "", "the file to write: its name ends in "+list(curveFormats))
	cmd.Flags().StringSliceVar(&names, "accountants", accountant.Names(), "who counts, separated by commas")
	cmd.Flags().IntVar(&points, "points", 100, "how many numbers of steps to compute")
	complete(cmd, "accountants", accountant.Names())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range names {
			if err := exitcode.CheckChoice("accountants", name, accountant.Names()); err != nil {
				return err
			}
		}
		plan, err := flags.plan()
		if err != nil {
			return err
		}
		if out == "" {
			return exitcode.Usagef("--out is missing: name a file that ends in %s", list(curveFormats))
		}
		format := strings.ToLower(filepath.Ext(out))
		if err := exitcode.CheckChoice("out: file name ending", format, curveFormats); err != nil {
			return err
		}
		if points < 2 || points > 10000 {
			return exitcode.Usagef("--points %d is impossible: give 2 to 10000", points)
		}
		c := curves{Out: out, Delta: flags.delta, planJSON: planOf(plan), inEpochs: flags.given("epochs")}
		if err := c.compute(plan, names, points); err != nil {
			return err
		}
		picture, err := c.render(format)
		if err != nil {
			return err
		}
		if err := os.WriteFile(out, picture, 0o644); err != nil {
			return exitcode.Usagef("%w: choose a file that can be written", err)
		}
		return term.Print(c, out, func(w io.Writer) {
			fmt.Fprintf(w, "wrote %s: ε at δ = %s after %d steps\n", out, number.RoundUp(c.Delta), plan.Steps)
			for _, line := range c.Curves {
				fmt.Fprintf(w, "%s\t%s\t%s\n", line.Accountant, number.RoundUp(line.last()), line.Note)
			}
		})
	}
	return cmd
}

// compute fills in the curves.
func (c *curves) compute(plan accountant.Plan, names []string, points int) error {
	perEpoch := lotsPerEpoch(plan.Sampling)
	c.At = report.CurvePoints(plan.Steps, points)
	begun := make([]*accountant.Composition, len(c.At))
	for i, at := range c.At {
		c.Epochs = append(c.Epochs, float64(at)/perEpoch)
		plan.Steps = at
		begun[i] = accountant.Compose(plan.History())
	}
	for _, name := range names {
		line, err := curveOf(begun, c.Delta, name)
		if err != nil {
			return err
		}
		c.Curves = append(c.Curves, line)
	}
	return nil
}

// curveOf asks an accountant about longer and longer beginnings of a run, and for a note
// on the last.
func curveOf(begun []*accountant.Composition, delta float64, name string) (curve, error) {
	line := curve{Accountant: name, Epsilon: make([]number.Float, len(begun))}
	for i, p := range begun {
		epsilon, err := p.PublishedEpsilon(delta, name)
		if err != nil {
			return line, err
		}
		line.Epsilon[i] = number.Float(epsilon)
	}
	last, err := begun[len(begun)-1].Epsilon(delta, name)
	line.Note = last.Note
	return line, err
}
