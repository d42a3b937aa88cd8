// Calibrate uses the accountant alone, without training: the noise that a budget of ε = 1 needs, the
// ε of the same plan by several accountants, and the number of steps that a noise allows. A plan is
// a sampling policy, a noise multiplier and a number of lots. It prints:
//
//	ε = 1 at δ = 1e-05 needs a noise multiplier of 1.41
//	pld: ε = 1.00
//	rdp: ε = 1.10
//	a noise multiplier of 2 allows 2432 steps
package main

import (
	"fmt"
	"log"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
)

const epsilon, delta = 1, 1e-5

func main() {
	plan := accountant.Plan{
		Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 0.01}, // each record joins a lot with this probability
		Steps:    1000,
	}
	noise, err := accountant.CalibrateNoise(plan, epsilon, delta, accountant.Default)
	check(err)
	fmt.Printf("ε = %d at δ = %g needs a noise multiplier of %.2f\n", epsilon, delta, noise)

	plan.Noise = noise
	for _, name := range []string{"pld", "rdp"} {
		spent, err := accountant.Epsilon(plan.History(), delta, name)
		check(err)
		fmt.Printf("%s: ε = %.2f\n", name, spent.Epsilon)
	}

	plan.Noise = 2
	steps, err := accountant.CalibrateSteps(plan, epsilon, delta, accountant.Default)
	check(err)
	fmt.Printf("a noise multiplier of %g allows %d steps\n", plan.Noise, steps)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
