// Package selection selects hyperparameters, and the model that they give, on private data.
//
// Its guarantee is that of [accountant.Selection] (Papernot and Steinke 2022). The number of
// runs is drawn at random and secret, each run uses a random candidate, and only the best
// run is released. A [Ledger] with everything that any run may release is on disk before
// the first run. A run that releases more according to its own ledger is refused.
package selection

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/host/atomicfile"
)

// Ledger is selection.json: everything that a selection may release, from which anyone can
// compute its cost. It does not contain the number of runs, which is secret.
type Ledger struct {
	Run        string           `json:"run"` // identifies the selection: random, and the same in copies of the file
	Runs       Distribution     `json:"runs"`
	Score      string           `json:"score"` // what the runs are compared by
	Unit       string           `json:"unit"`
	Records    int              `json:"records"`
	Adjacency  ledger.Adjacency `json:"adjacency"`
	Delta      float64          `json:"delta"`
	Budget     float64          `json:"budget"`
	Candidates []Candidate      `json:"candidates"`
}

// Candidate is a setting, and what one run with it releases.
type Candidate struct {
	Flags    string    `json:"flags"`
	Releases []Release `json:"spent"`
}

// Release is a lot that is released several times.
type Release struct {
	Count int `json:"lots"`
	ledger.Lot
}

// Distribution is the distribution of the number of runs.
type Distribution struct {
	Name  string  `json:"distribution"`
	Shape float64 `json:"shape,omitempty"` // of the truncated negative binomial distribution
	Mean  float64 `json:"mean"`
}

const (
	poisson          = "poisson"
	negativeBinomial = "truncated-negative-binomial"
)

// DistributionNames are the values of --runs that have a name.
var DistributionNames = []string{"geometric", "logarithmic", "poisson"}

// ParseDistribution parses --runs and --trials, the mean.
func ParseDistribution(text string, mean int) (Distribution, error) {
	d := Distribution{Name: negativeBinomial, Mean: float64(mean)}
	switch text {
	case "geometric":
		d.Shape = 1
	case "logarithmic":
	case "poisson":
		d.Name = poisson
	default:
		var err error
		if d.Shape, err = strconv.ParseFloat(text, 64); err != nil || math.IsInf(d.Shape, 0) {
			return d, exitcode.UnknownName("--runs", text, append(DistributionNames, "a shape above -1"))
		}
	}
	if _, err := d.runs().Quantile(0); err != nil {
		return d, exitcode.Usagef("--runs %s --trials %d: %w", text, mean, err)
	}
	return d, nil
}

func (d Distribution) runs() accountant.RunDistribution {
	if d.Name == poisson {
		return accountant.RunDistribution{Shape: math.Inf(1), Mean: d.Mean}
	}
	return accountant.RunDistribution{Shape: d.Shape, Mean: d.Mean}
}

func (d Distribution) String() string {
	name := fmt.Sprintf("truncated negative binomial with shape %v", d.Shape)
	switch {
	case d.Name == poisson:
		name = "Poisson"
	case d.Shape == 1:
		name = "geometric"
	case d.Shape == 0:
		name = "logarithmic"
	}
	return fmt.Sprintf("a secret number of runs, %s with mean %v", name, d.Mean)
}

// Guarantee computes the cost of the selection.
func (l *Ledger) Guarantee(delta float64) (accountant.Guarantee, error) {
	return accountant.Selection{Runs: l.Runs.runs(), Candidates: l.Histories()}.Epsilon(delta)
}

// Histories returns what one run with each candidate releases.
func (l *Ledger) Histories() []ledger.History {
	var histories []ledger.History
	for _, c := range l.Candidates {
		h := ledger.History{Header: ledger.Header{Adjacency: l.Adjacency}}
		for _, r := range c.Releases {
			h.Lots = append(h.Lots, ledger.RepeatedLot{Lot: r.Lot, Count: r.Count})
		}
		histories = append(histories, h)
	}
	return histories
}

// EpsilonOfAll computes what selections and the lots of runs cost together.
func EpsilonOfAll(ledgers []*Ledger, runs ledger.History, delta float64) (accountant.Guarantee, error) {
	var selections []accountant.Selection
	for _, l := range ledgers {
		selections = append(selections, accountant.Selection{Runs: l.Runs.runs(), Candidates: l.Histories()})
	}
	return accountant.EpsilonWithSelections(selections, runs, delta)
}

// Write writes selection.json with a new identifier. The file is on disk when Write returns its
// hash.
func (l *Ledger) Write(dir string) (head string, err error) {
	var random [16]byte
	rand.Read(random[:]) // never returns an error
	l.Run = hex.EncodeToString(random[:])
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return "", err
	}
	text = append(text, '\n')
	if err := atomicfile.Write(filepath.Join(dir, rundir.SelectionFile), text); err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// ReadLedger reads selection.json.
func ReadLedger(path string) (*Ledger, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	l := &Ledger{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(l); err != nil {
		return nil, &exitcode.Error{Code: exitcode.Damaged, Err: fmt.Errorf("%s: %w", path, err)}
	}
	if l.Run == "" {
		return nil, &exitcode.Error{Code: exitcode.Damaged, Err: fmt.Errorf("%s: the key run is missing, which identifies the selection", path)}
	}
	if l.Runs.Name != poisson && l.Runs.Name != negativeBinomial {
		return nil, &exitcode.Error{Code: exitcode.Damaged, Err: fmt.Errorf("%s: the distribution of runs is %q, want %s or %s", path, l.Runs.Name, negativeBinomial, poisson)}
	}
	return l, nil
}

// FindLedger returns the path of selection.json if path names it or its directory.
func FindLedger(path string) (file string, ok bool) {
	if filepath.Base(path) == rundir.SelectionFile {
		return path, true
	}
	file = filepath.Join(path, rundir.SelectionFile)
	_, err := os.Stat(file)
	return file, err == nil
}
