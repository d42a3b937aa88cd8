package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

// quantity is one of the five that a budget relates.
type quantity struct {
	flag    string
	short   string
	example string
}

var quantities = []quantity{
	{"epsilon", "The ε that a run spends",
		"  dptrain budget epsilon --rate 0.01 --noise 4 --steps 10000 --delta 1e-5\n" +
			"  dptrain budget epsilon --records 60000 --lot 600 --epochs 60 --groups 1:4,0.5:2 --accountant rdp\n" +
			"  dptrain budget epsilon --rate 0.01 --noise 4 --steps 10000 --delta 1e-5 --accountant moments --asymptotic"},
	{"noise", "The least noise with which a run stays within ε",
		"  dptrain budget noise --records 60000 --lot 600 --epochs 60 --epsilon 2\n" +
			"  dptrain budget noise --rate 0.04 --steps 2000 --epsilon 8 --delta 1e-5 --quiet"},
	{"steps", "The most steps that stay within ε",
		"  dptrain budget steps --rate 0.01 --noise 1 --epsilon 2 --delta 1e-5"},
	{"rate", "The largest sampling rate that stays within ε",
		"  dptrain budget rate --noise 1 --steps 10000 --epsilon 2 --delta 1e-5\n" +
			"  dptrain budget rate --sampling fixed --records 60000 --noise 4 --steps 1000 --epsilon 2 --accountant rdp"},
	{"delta", "The δ that a run spends at a given ε",
		"  dptrain budget delta --rate 0.01 --noise 4 --steps 10000 --epsilon 1"},
}

// solvedJSON is the answer of a budget command: everything, given or computed.
type solvedJSON struct {
	answerJSON
	Spent       *number.Float `json:"epsilon_spent,omitempty"`  // where ε is a target: what the answer spends of it
	SpentProven number.Float  `json:"epsilon_proven,omitempty"` // for any data, where that is more: what meets the target
	planJSON
}

func newBudgetSolve(term *terminal.Terminal, q quantity) *cobra.Command {
	var name string
	var asymptotic bool
	cmd := &cobra.Command{Use: q.flag, Short: q.short, Long: q.short + ".", Example: q.example, Args: noArguments}
	flags := planFlagsOf(cmd, q.flag)
	accountantFlag(cmd, &name)
	if q.flag == "epsilon" {
		cmd.Flags().BoolVar(&asymptotic, "asymptotic", false, "with --accountant moments: the asymptotic bound of Abadi et al. 2016, which may say less than was spent")
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := exitcode.CheckChoice("accountant", name, accountant.Names()); err != nil {
			return err
		}
		if asymptotic && name != "moments" {
			return exitcode.Usagef("--asymptotic is a bound of the moments accountant: give --accountant moments")
		}
		plan, err := flags.plan()
		if err != nil {
			return err
		}
		var v solvedJSON
		if asymptotic {
			var answer accountant.Guarantee
			answer, err = accountant.AsymptoticMoments(plan, flags.delta)
			v = solvedJSON{answerJSON: answerOf(answer), planJSON: planOf(plan)}
		} else {
			v, err = solve(q.flag, plan, flags.epsilon, flags.delta, name)
		}
		if err != nil {
			return err
		}
		warnAboutDelta(term, float64(v.Delta), v.Records)
		bare := map[string]string{
			"epsilon": number.RoundUp(float64(v.Epsilon)),
			"noise":   number.RoundUp(v.Noise),
			"steps":   strconv.Itoa(v.Steps),
			"rate":    number.RoundDown(v.Rate),
			"delta":   number.RoundUp(float64(v.Delta)),
		}[q.flag]
		return term.Print(v, bare, func(w io.Writer) {
			if q.flag != "epsilon" {
				fmt.Fprintf(w, "%s\t%s\n", q.flag, bare)
			}
			v.answerJSON.print(w, q.flag)
			if v.Spent != nil {
				fmt.Fprintf(w, "epsilon spent\t%s\n", epsilonWords(*v.Spent, v.SpentProven))
			}
			v.planJSON.print(w, q.flag)
		})
	}
	return cmd
}

// solve computes the quantity that is missing in plan.
func solve(unknown string, plan accountant.Plan, epsilon, delta float64, name string) (solvedJSON, error) {
	var err error
	switch unknown {
	case "delta":
		return solveDelta(plan, epsilon, name)
	case "noise":
		plan.Noise, err = accountant.CalibrateNoise(plan, epsilon, delta, name)
	case "steps":
		plan.Steps, err = accountant.CalibrateSteps(plan, epsilon, delta, name)
	case "rate":
		var rate float64
		if rate, err = accountant.CalibrateRate(plan, epsilon, delta, name); plan.Sampling.Policy == ledger.Poisson {
			plan.Sampling.Rate = rate
		} else {
			plan.Sampling.LotSize = int(rate*float64(plan.Sampling.Records) + 0.5)
		}
	}
	if err != nil {
		return solvedJSON{}, err
	}
	answer, err := accountant.Epsilon(plan.History(), delta, name)
	v := solvedJSON{answerJSON: answerOf(answer), planJSON: planOf(plan)}
	if unknown != "epsilon" {
		v.spend(answer)
		v.Epsilon = number.Float(epsilon)
	}
	return v, err
}

// spend notes what the answer, put back, spends of the target.
func (v *solvedJSON) spend(back accountant.Guarantee) {
	spent := number.Float(back.Epsilon)
	v.Spent, v.SpentProven = &spent, number.Float(back.ProvenBound)
}

// solveDelta answers for δ. Where it is 0 or 1 there is nothing to put back.
func solveDelta(plan accountant.Plan, epsilon float64, name string) (solvedJSON, error) {
	answer, err := accountant.Delta(plan.History(), epsilon, name)
	if err != nil {
		return solvedJSON{}, err
	}
	v := solvedJSON{answerJSON: answerOf(answer), planJSON: planOf(plan)}
	delta, err := accountant.CalibrateDelta(plan, epsilon, name)
	if v.Delta = number.Float(delta); err != nil || delta == 0 || delta == 1 {
		return v, err
	}
	back, err := accountant.Epsilon(plan.History(), delta, name)
	v.spend(back)
	return v, err
}
