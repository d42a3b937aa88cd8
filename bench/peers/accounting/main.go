// Command accounting draws random runs of sampled Gaussians, times dptrain's pld
// accountant on them on one core, and writes cases and results for compare.py,
// which lets the peers answer the same as often:
//
//	python bench/peers/accounting/compare.py bench/results/accounting.json
//
// which runs this program first.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
)

const (
	epsilonCases = 30
	noiseCases   = 5
	repeats      = 3 // of every accountant, the peers' among them
)

// Case is one run, and what each accountant answered and how long it took. Kind is
// "epsilon", or "noise" where the noise multiplier for Epsilon is asked for.
type Case struct {
	Kind    string  `json:"kind"`
	Rate    float64 `json:"rate"`
	Noise   float64 `json:"noise,omitempty"`
	Steps   int     `json:"steps"`
	Delta   float64 `json:"delta"`
	Epsilon float64 `json:"epsilon,omitempty"`

	Results map[string]Result `json:"results"`
}

// Result is an answer and the least of the times it took.
type Result struct {
	Answer  float64 `json:"answer"`
	Seconds float64 `json:"seconds"`
}

// Report is the file.
type Report struct {
	Go      string `json:"go"`
	Repeats int    `json:"repeats"`
	Cases   []Case `json:"cases"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "accounting: one argument is needed, the file to write")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "accounting:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	runtime.GOMAXPROCS(1)
	report := Report{Go: runtime.Version(), Repeats: repeats, Cases: cases()}
	for i := range report.Cases {
		c := &report.Cases[i]
		c.Results = map[string]Result{}
		for _, name := range []string{"pld", "rdp"} {
			result, err := answer(*c, name)
			if err != nil {
				return err
			}
			c.Results["dptrain "+name] = result
		}
	}
	data, err := json.MarshalIndent(report, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

func cases() []Case {
	r := rand.New(rand.NewPCG(2019, 4))
	between := func(from, to float64) float64 { return from * math.Pow(to/from, r.Float64()) }
	var list []Case
	for range epsilonCases {
		list = append(list, Case{
			Kind: "epsilon", Rate: between(1e-3, .1), Noise: between(.7, 4),
			Steps: int(between(100, 30000)), Delta: between(1e-8, 1e-5),
		})
	}
	for range noiseCases {
		list = append(list, Case{
			Kind: "noise", Rate: between(1e-3, .1), Steps: int(between(100, 10000)),
			Delta: 1e-5, Epsilon: between(.5, 8),
		})
	}
	return list
}

func answer(c Case, name string) (Result, error) {
	plan := accountant.Plan{
		Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: c.Rate},
		Noise:    c.Noise, Steps: c.Steps,
	}
	least := Result{Seconds: math.Inf(1)}
	for range repeats {
		start := time.Now()
		var value float64
		var err error
		if c.Kind == "noise" {
			value, err = accountant.CalibrateNoise(plan, c.Epsilon, c.Delta, name)
		} else {
			var a accountant.Guarantee
			a, err = accountant.Epsilon(plan.History(), c.Delta, name)
			value = a.Epsilon
		}
		if err != nil {
			return least, err
		}
		least.Answer = value
		least.Seconds = min(least.Seconds, time.Since(start).Seconds())
	}
	return least, nil
}
