package main

import (
	"fmt"
	"io"
	"reflect"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/budget"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/selection"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
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
	return comparedLedgers{a.Path, b.Path, c.Relation, c.CommonLots, a.History.LotCount() - c.CommonLots,
		b.History.LotCount() - c.CommonLots, c.Line}
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
		}
	}
	if err != nil {
		err = &exitcode.Error{Code: exitcode.Damaged, Err: err}
	}
	return compared, err
}

// fileOfJoint is one of several ledgers, in JSON.
type fileOfJoint struct {
	File     string `json:"file"`
	Steps    int    `json:"steps"`
	Settings int    `json:"settings,omitempty"` // of a selection, which has no lots
	Run      string `json:"run,omitempty"`
	Head     string `json:"head,omitempty"`
	Ended    bool   `json:"ended"`
}

// jointEpsilon is what several ledgers cost together, in JSON.
type jointEpsilon struct {
	budget.Guarantee
	Steps   int               `json:"steps"`
	Unit    string            `json:"unit"`
	Records int               `json:"records"`
	Secure  bool              `json:"secure"`
	Groups  []ledgerGroup     `json:"groups"`
	Files   []fileOfJoint     `json:"files"`
	Copies  []comparedLedgers `json:"copies"` // counted once
	Forks   []comparedLedgers `json:"forks"`  // the common lines are counted once
}

// printJointEpsilon accounts for several ledgers together. A delta of 0 selects the default.
// Ledgers of selections are included by Rényi divergences.
func printJointEpsilon(term *terminal.Terminal, names []string, delta float64, name string) error {
	v := jointEpsilon{Secure: true, Groups: []ledgerGroup{}, Copies: []comparedLedgers{}, Forks: []comparedLedgers{}}
	selections, runs, err := v.readSelections(names)
	if err != nil {
		return err
	}
	history, err := v.readRuns(term, runs)
	if err != nil {
		return err
	}
	if delta == 0 {
		delta = accountant.DefaultDelta(v.Records)
	}
	var guarantee accountant.Guarantee
	if len(selections) == 0 {
		guarantee, err = accountant.Epsilon(history, delta, name)
	} else {
		noteAccountantOfSelection(term, name)
		guarantee, err = selection.EpsilonOfAll(selections, history, delta)
	}
	if err != nil {
		return err
	}
	v.Guarantee = budget.NewGuarantee(guarantee)
	if !v.Secure {
		term.Warn("one of these ledgers is insecure: its noise or sampling was seeded or not cryptographic; the ε holds only against adversaries who cannot guess the random numbers")
	}
	warnAboutEpsilon(term, guarantee.Epsilon)
	warnAboutDelta(term, delta, v.Records)
	return term.Print(v, number.RoundUp(guarantee.Epsilon), v.print)
}

// readSelections reads the ledgers of selections among the named ones, without copies. It returns
// the names of the others.
func (v *jointEpsilon) readSelections(names []string) (ledgers []*selection.Ledger, runs []string, err error) {
	var paths []string
	for _, name := range names {
		path, ok := selection.FindLedger(name)
		if !ok {
			runs = append(runs, name)
			continue
		}
		l, err := selection.ReadLedger(path)
		if err != nil {
			return nil, nil, err
		}
		if err := v.addUnit(path, l.Unit, l.Records); err != nil {
			return nil, nil, err
		}
		v.Files = append(v.Files, fileOfJoint{File: path, Settings: len(l.Candidates), Run: l.Run, Ended: true})
		counted := true
		for i, other := range ledgers {
			if reflect.DeepEqual(l, other) {
				v.Copies = append(v.Copies, comparedLedgers{File: path, Other: paths[i], Relation: ledger.Copy})
				counted = false
			}
		}
		if counted {
			ledgers, paths = append(ledgers, l), append(paths, path)
		}
	}
	return ledgers, runs, nil
}

// readRuns reads the ledgers of runs, and returns what they released together.
func (v *jointEpsilon) readRuns(term *terminal.Terminal, names []string) (ledger.History, error) {
	if len(names) == 0 {
		return ledger.History{}, nil
	}
	files, err := readLedgerFiles(names)
	if err != nil {
		return ledger.History{}, err
	}
	joint, err := ledger.Join(files)
	if err != nil {
		return ledger.History{}, exitcode.Usagef("%w", err)
	}
	h := joint.History.Header
	if err := v.addUnit(files[0].Path, h.Unit, h.Records); err != nil {
		return ledger.History{}, err
	}
	v.Steps, v.Secure = joint.Lots, h.Secure
	for _, g := range report.Groups(joint.History) {
		v.Groups = append(v.Groups, ledgerGroup{g.Name, g.Mechanism, g.MaxSensitivity, g.MinNoise, g.Lots})
	}
	for i, f := range files {
		v.Files = append(v.Files, fileOfJoint{File: f.Path, Steps: f.History.LotCount(), Run: f.Summary.Run,
			Head: f.Summary.Head, Ended: f.Summary.Ended})
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
			}
		}
	}
	return joint.History, nil
}

// addUnit includes a ledger with a unit of privacy, which must be that of the others.
func (v *jointEpsilon) addUnit(path, unit string, records int) error {
	if v.Unit != "" && unit != v.Unit {
		return exitcode.Usagef("%s protects the unit %s and %s the unit %s: compute their ε separately", v.Files[0].File, v.Unit, path, unit)
	}
	v.Unit, v.Records = unit, max(v.Records, records)
	return nil
}

func (v jointEpsilon) print(w io.Writer) {
	v.Print(w, budget.Epsilon)
	fmt.Fprintf(w, "releases\t%d in %s\n", v.Steps, number.Plural(len(v.Files), "ledger"))
	for _, f := range v.Files {
		if f.Settings > 0 {
			fmt.Fprintf(w, "selection\t%s, with %s\n", f.File, number.Plural(f.Settings, "setting"))
			continue
		}
		fmt.Fprintf(w, "ledger\t%s, %s\n", f.File, number.Plural(f.Steps, "release"))
	}
	for _, c := range v.Copies {
		fmt.Fprintf(w, "copy\t%s: counted once\n", c)
	}
	for _, c := range v.Forks {
		fmt.Fprintf(w, "fork\t%s: the common releases are counted once\n", c)
	}
	fmt.Fprintf(w, "unit of privacy\t%s\n", v.Unit)
}

// parallelEpsilon is what ledgers about different people cost each person, in JSON.
type parallelEpsilon struct {
	budget.Guarantee
	Unit   string         `json:"unit"`
	Secure bool           `json:"secure"`
	Files  []parallelFile `json:"files"`
}

type parallelFile struct {
	File    string       `json:"file"`
	Epsilon number.Float `json:"epsilon"`
}

// printParallelEpsilon computes the largest ε of several ledgers: the cost of each person if
// no person is in the data of two (parallel composition, McSherry 2009). A delta of 0 selects the
// default of the largest data set.
func printParallelEpsilon(term *terminal.Terminal, names []string, delta float64, name string) error {
	for _, name := range names {
		if path, ok := selection.FindLedger(name); ok {
			return exitcode.Usagef("%s is of a private selection, which --parallel does not include: compute its ε separately, and take the largest at the same δ", path)
		}
	}
	files, err := readLedgerFiles(names)
	if err != nil {
		return err
	}
	v, records := parallelEpsilon{Secure: true}, 0
	for i, f := range files {
		h := f.History.Header
		if i > 0 && h.Unit != files[0].History.Header.Unit {
			return exitcode.Usagef("%s protects the unit %s and %s the unit %s: compute their ε separately", files[0].Path, files[0].History.Header.Unit, f.Path, h.Unit)
		}
		v.Unit, v.Secure, records = h.Unit, v.Secure && h.Secure, max(records, h.Records)
		for _, other := range files[:i] {
			if c := compareLedgers(f, other); c.Relation != ledger.Unrelated {
				return exitcode.Usagef("%s: they may be of one run on the same people, to which --parallel does not apply; drop it, or omit one of them", c)
			}
		}
		if f.Truncated || !f.Summary.Ended {
			term.Warn("state of %s: %s", f.Path, describeState(false, f.Truncated))
		}
	}
	if delta == 0 {
		delta = accountant.DefaultDelta(records)
	}
	var largest accountant.Guarantee
	for i, f := range files {
		g, err := accountant.Epsilon(f.History, delta, name)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
		if i > 0 && g.Adjacency != largest.Adjacency {
			return exitcode.Usagef("%s is accounted under %s adjacency and %s under %s: compute their ε separately", files[0].Path, largest.Adjacency, f.Path, g.Adjacency)
		}
		v.Files = append(v.Files, parallelFile{f.Path, number.Float(g.Epsilon)})
		if i == 0 || g.Epsilon > largest.Epsilon {
			largest = g
		}
	}
	v.Guarantee = budget.NewGuarantee(largest)
	if !v.Secure {
		term.Warn("one of these ledgers is insecure: its noise or sampling was seeded or not cryptographic; the ε holds only against adversaries who cannot guess the random numbers")
	}
	term.Note("Each person is in the data of only one ledger, as declared; the ε is the largest one.")
	warnAboutEpsilon(term, largest.Epsilon)
	warnAboutDelta(term, delta, records)
	return term.Print(v, number.RoundUp(largest.Epsilon), func(w io.Writer) {
		v.Print(w, budget.Epsilon)
		for _, f := range v.Files {
			fmt.Fprintf(w, "ledger\t%s, epsilon %s\n", f.File, number.RoundUp(float64(f.Epsilon)))
		}
	})
}
