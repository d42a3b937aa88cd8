package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/atomicfile"
	"github.com/dptrain/dptrain/internal/budget"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/terminal"
)

// selection is what selection.json holds: all that a choice may release, stated
// before its first run, so that anyone can account for it again. It does not say
// how many runs there were, for that is part of what must not be known.
type selection struct {
	Runs       runs             `json:"runs"`
	Score      string           `json:"score"`
	Unit       string           `json:"unit"`
	Records    int              `json:"records"`
	Adjacency  ledger.Adjacency `json:"adjacency"`
	Delta      float64          `json:"delta"`
	Budget     float64          `json:"budget"`
	Candidates []candidate      `json:"candidates"`
}

// runs is how the number of runs is drawn.
type runs struct {
	Distribution string  `json:"distribution"`
	Shape        float64 `json:"shape,omitempty"` // of the truncated negative binomial
	Mean         float64 `json:"mean"`
}

const (
	poissonRuns  = "poisson"
	binomialRuns = "truncated-negative-binomial"
)

func runsOf(r accountant.RunDistribution) runs {
	if math.IsInf(r.Shape, 1) {
		return runs{poissonRuns, 0, r.Mean}
	}
	return runs{binomialRuns, r.Shape, r.Mean}
}

func (r runs) accounted() accountant.RunDistribution {
	if r.Distribution == poissonRuns {
		return accountant.RunDistribution{Shape: math.Inf(1), Mean: r.Mean}
	}
	return accountant.RunDistribution{Shape: r.Shape, Mean: r.Mean}
}

func (r runs) words() string {
	kind := fmt.Sprintf("truncated negative binomial of shape %v", r.Shape)
	switch {
	case r.Distribution == poissonRuns:
		kind = "Poisson"
	case r.Shape == 1:
		kind = "geometric"
	case r.Shape == 0:
		kind = "logarithmic"
	}
	return fmt.Sprintf("a secret number of runs, %s with mean %v", kind, r.Mean)
}

// candidate is a setting, and what a run with it releases.
type candidate struct {
	Flags string      `json:"flags"`
	Spent []spentJSON `json:"spent"`
}

// accounted is the selection as the accountant knows it.
func (p *selection) accounted() accountant.Selection {
	s := accountant.Selection{Runs: p.Runs.accounted()}
	for _, c := range p.Candidates {
		h := ledger.History{Header: ledger.Header{Adjacency: p.Adjacency}}
		for _, spent := range c.Spent {
			h.Lots = append(h.Lots, ledger.RepeatedLot{Lot: spent.Lot, Count: spent.Lots})
		}
		s.Candidates = append(s.Candidates, h)
	}
	return s
}

// write has the file on disk when it returns, and gives its hash.
func (p *selection) write(path string) (head string, err error) {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return "", err
	}
	text = append(text, '\n')
	if err := atomicfile.Write(path, text); err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// readSelection reads a choice's ledger.
func readSelection(path string) (*selection, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &selection{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return nil, &exitcode.Error{Code: exitcode.Damaged, Err: fmt.Errorf("%s: %w", path, err)}
	}
	if p.Runs.Distribution != poissonRuns && p.Runs.Distribution != binomialRuns {
		return nil, &exitcode.Error{Code: exitcode.Damaged, Err: fmt.Errorf("%s: runs drawn by %q: there are %s and %s", path, p.Runs.Distribution, binomialRuns, poissonRuns)}
	}
	return p, nil
}

// selectionAt is the selection's file that a path names, or the folder at it holds.
func selectionAt(path string) (string, bool) {
	if filepath.Base(path) == rundir.SelectionFile {
		return path, true
	}
	in := filepath.Join(path, rundir.SelectionFile)
	_, err := os.Stat(in)
	return in, err == nil
}

// selectionEpsilon accounts for a choice again.
func printSelectionEpsilon(term *terminal.Terminal, path string, delta float64, name string) error {
	p, err := readSelection(path)
	if err != nil {
		return err
	}
	if name != "rdp" && name != accountant.Default {
		term.Note("What a choice costs is known by Rényi divergences alone: the rdp accountant answers.")
	}
	if delta == 0 {
		delta = p.Delta
	}
	answer, err := p.accounted().Epsilon(delta)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	v := struct {
		budget.Guarantee
		Settings int    `json:"settings"`
		Runs     runs   `json:"runs"`
		Unit     string `json:"unit"`
		Records  int    `json:"records"`
	}{budget.NewGuarantee(answer), len(p.Candidates), p.Runs, p.Unit, p.Records}
	return term.Print(v, number.RoundUp(answer.Epsilon), func(w io.Writer) {
		v.Print(w, budget.Epsilon)
		fmt.Fprintf(w, "runs\t%s, of %s\n", p.Runs.words(), number.Plural(v.Settings, "setting"))
		fmt.Fprintf(w, "unit of privacy\t%s\n", v.Unit)
	})
}
