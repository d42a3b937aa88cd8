package main

import (
	"fmt"
	"io"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/budget"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/report"
	"github.com/dptrain/dptrain/internal/terminal"
)

// comparedLedgers is how two ledgers are related, in JSON.
type comparedLedgers struct {
	File       string          `json:"file"`
	Other      string          `json:"other"`
	Relation   ledger.Relation `json:"relation"`
	CommonLots int             `json:"common_lots"`
	OwnLots    int             `json:"own_lots"`       // of File
	OtherLots  int             `json:"other_lots"`     // of Other
	Line       int             `json:"line,omitempty"` // the first that differs
}

func compareLedgers(a, b *ledger.File) comparedLedgers {
	c := ledger.Compare(a, b)
	return comparedLedgers{a.Path, b.Path, c.Relation, c.CommonLots, a.History.LotCount() - c.CommonLots, b.History.LotCount() - c.CommonLots, c.Line}
}

// String describes the relation in a sentence without its full stop.
func (c comparedLedgers) String() string {
	switch c.Relation {
	case ledger.Copy:
		return fmt.Sprintf("%s is a copy of %s", c.File, c.Other)
	case ledger.Earlier:
		return fmt.Sprintf("%s is an earlier copy of %s, which has %s more", c.File, c.Other, number.Plural(c.OtherLots, "release"))
	case ledger.Later:
		return fmt.Sprintf("%s is an earlier copy of %s", c.Other, c.File)
	case ledger.Fork:
		return fmt.Sprintf("%s and %s are forks of one run: they have %s in common and differ from line %d, after which they released %d and %d", c.File, c.Other, number.Plural(c.CommonLots, "release"), c.Line, c.OwnLots, c.OtherLots)
	case ledger.Undecided:
		return fmt.Sprintf("%s and %s begin with the same %s, but no common line identifies the run (format version 1): they may be one run or two", c.File, c.Other, number.Plural(c.CommonLots, "release"))
	}
	return fmt.Sprintf("%s and %s are unrelated runs", c.File, c.Other)
}

// readLedgerFiles reads ledgers to compare them.
func readLedgerFiles(names []string) (files []*ledger.File, err error) {
	for _, name := range names {
		path, err := findLedger([]string{name})
		if err != nil {
			return nil, err
		}
		f, err := ledger.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// compareWith compares a verified ledger with others. The error names the first one that shows
// that the ledger does not state everything that its run released.
func compareWith(path string, others []string) (compared []comparedLedgers, err error) {
	files, err := readLedgerFiles(append([]string{path}, others...))
	if err != nil {
		return nil, err
	}
	for _, f := range files[1:] {
		c := compareLedgers(files[0], f)
		compared = append(compared, c)
		if err != nil {
			continue
		}
		both := fmt.Sprintf("dptrain ledger epsilon %s %s", c.File, c.Other)
		switch c.Relation {
		case ledger.Fork:
			err = fmt.Errorf("%v: neither ledger states the whole cost; use %s", c, both)
		case ledger.Earlier:
			err = fmt.Errorf("%v: verify %s instead", c, c.Other)
		case ledger.Undecided:
			err = fmt.Errorf("%v: %s adds both in full", c, both)
		}
	}
	if err != nil {
		err = &exitcode.Error{Code: exitcode.Damaged, Err: err}
	}
	return compared, err
}

// fileOfJoint is one of several ledgers, in JSON.
type fileOfJoint struct {
	File  string `json:"file"`
	Steps int    `json:"steps"`
	Run   string `json:"run,omitempty"`
	Head  string `json:"head"`
	Ended bool   `json:"ended"`
}

// printJointEpsilon accounts for several ledgers together. A delta of 0 selects the default.
func printJointEpsilon(term *terminal.Terminal, names []string, delta float64, name string) error {
	files, err := readLedgerFiles(names)
	if err != nil {
		return err
	}
	joint, err := ledger.Join(files)
	if err != nil {
		return exitcode.Usagef("%w", err)
	}
	h := joint.History.Header
	if delta == 0 {
		delta = engine.DefaultDelta(h.Records)
	}
	guarantee, err := accountant.Epsilon(joint.History, delta, name)
	if err != nil {
		return err
	}
	v := struct {
		budget.Guarantee
		Steps     int               `json:"steps"`
		Unit      string            `json:"unit"`
		Records   int               `json:"records"`
		Secure    bool              `json:"secure"`
		Groups    []ledgerGroup     `json:"groups"`
		Files     []fileOfJoint     `json:"files"`
		Copies    []comparedLedgers `json:"copies"`    // counted once
		Forks     []comparedLedgers `json:"forks"`     // the common lines are counted once
		Undecided []comparedLedgers `json:"undecided"` // counted in full
	}{budget.NewGuarantee(guarantee), joint.Lots, h.Unit, h.Records, h.Secure, []ledgerGroup{}, nil, []comparedLedgers{}, []comparedLedgers{}, []comparedLedgers{}}
	for _, g := range report.Groups(joint.History) {
		v.Groups = append(v.Groups, ledgerGroup{g.Name, g.Mechanism, g.MaxSensitivity, g.MinNoise, g.Lots})
	}
	for i, f := range files {
		v.Files = append(v.Files, fileOfJoint{f.Path, f.History.LotCount(), f.Summary.Run, f.Summary.Head, f.Summary.Ended})
		if f.Truncated || !f.Summary.Ended {
			term.Warn("state of %s: %s", f.Path, describeState(false, f.Truncated))
		}
		for _, other := range files[:i] {
			c := compareLedgers(f, other)
			switch c.Relation {
			case ledger.Copy, ledger.Earlier, ledger.Later:
				v.Copies = append(v.Copies, c)
			case ledger.Fork:
				v.Forks = append(v.Forks, c)
			case ledger.Undecided:
				v.Undecided = append(v.Undecided, c)
				term.Note("%s. Both count in full. If one is a copy of the other, omit it.", c)
			}
		}
	}
	if !h.Secure {
		term.Warn("one of these ledgers is insecure: its noise or sampling was seeded or not cryptographic; the ε holds only against adversaries who cannot guess the random numbers")
	}
	warnAboutDelta(term, delta, h.Records)
	return term.Print(v, number.RoundUp(guarantee.Epsilon), func(w io.Writer) {
		v.Print(w, budget.Epsilon)
		fmt.Fprintf(w, "releases\t%d in %s\n", v.Steps, number.Plural(len(v.Files), "ledger"))
		for _, f := range v.Files {
			fmt.Fprintf(w, "ledger\t%s, %s\n", f.File, number.Plural(f.Steps, "release"))
		}
		for _, c := range v.Copies {
			fmt.Fprintf(w, "copy\t%s: counted once\n", c)
		}
		for _, c := range v.Forks {
			fmt.Fprintf(w, "fork\t%s: the common releases are counted once\n", c)
		}
		fmt.Fprintf(w, "unit of privacy\t%s\n", v.Unit)
	})
}
