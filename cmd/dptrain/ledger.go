package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/report"
	"github.com/dptrain/dptrain/internal/selection"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

func newLedger(term *terminal.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Read, account and verify the ledger of a run",
		Long: `A ledger is the record of everything that a run released. It is written before
each release, each line sealed with the hash of the line before. A lot is a release,
and so are a projection's directions and a validation, which are counted with the
lots here. FILE is a ledger, or a run's folder. accountant/ledger/FORMAT.md describes the
format.`,
		Example: `  dptrain ledger show runs/mnist
  dptrain ledger epsilon runs/mnist/ledger.jsonl --delta 1e-5
  dptrain ledger verify runs/mnist/ledger.jsonl`,
	}
	groupSubcommands(cmd)
	cmd.AddCommand(newLedgerShow(term), newLedgerEpsilon(term), newLedgerVerify(term))
	return cmd
}

// ledgerPath is the one argument of the ledger commands.
func ledgerPath(args []string) (string, error) {
	if len(args) != 1 {
		return "", exitcode.Usagef("name one ledger, such as runs/mnist/ledger.jsonl")
	}
	info, err := os.Stat(args[0])
	if errors.Is(err, fs.ErrNotExist) {
		return "", exitcode.Usagef("%s: there is no such file: check the path", args[0])
	}
	if err != nil {
		return "", exitcode.Usagef("%w", err)
	}
	if _, is := selection.FindLedger(args[0]); is {
		return "", exitcode.Usagef("%s is of a choice among runs, which has no lots of its own: dptrain ledger epsilon accounts for it", args[0])
	}
	if !info.IsDir() {
		return args[0], nil
	}
	file := filepath.Join(args[0], "ledger.jsonl")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", exitcode.Usagef("%s holds no ledger.jsonl: name a ledger, or a run's folder", args[0])
	}
	return file, nil
}

// readLedger reads the ledger that the arguments name.
func readLedger(args []string) (path string, history ledger.History, seal ledger.Summary, cutShort bool, err error) {
	if path, err = ledgerPath(args); err != nil {
		return
	}
	if history, err = ledger.Read(path); err != nil {
		return
	}
	// What Read accepts, Verify only finds fault with if its end is cut short.
	seal, damage := ledger.Verify(path)
	return path, history, seal, damage != nil, nil
}

type spentJSON struct {
	Lots int `json:"lots"`
	ledger.Lot
}

func spentOf(h ledger.History) []spentJSON {
	all := []spentJSON{}
	for _, spent := range h.Lots {
		all = append(all, spentJSON{spent.Count, spent.Lot})
	}
	return all
}

func stateWords(ended, cutShort bool) string {
	switch {
	case cutShort:
		return "the last line is cut short, and counted as the most that it may have stated"
	case ended:
		return "ended"
	}
	return "not ended: the run was killed or still runs, or lines are missing at the end"
}

// groupJSON is what a ledger says about one group: where its lots differ, the
// largest sensitivity and the least noise.
type groupJSON struct {
	Group       string           `json:"group"`
	Mechanism   ledger.Mechanism `json:"mechanism"`
	Sensitivity float64          `json:"sensitivity"`
	Noise       float64          `json:"noise"`
	Lots        int              `json:"lots"`
}

func groupsOf(h ledger.History) []groupJSON {
	groups := []groupJSON{}
	for _, g := range report.Groups(h) {
		groups = append(groups, groupJSON{g.Name, g.Mechanism, g.MaxSensitivity, g.MinNoise, g.Lots})
	}
	return groups
}

// summaryBeside is what a run's summary says of the ledger beside it.
func summaryBeside(ledger string) (name, head string) {
	var saved struct {
		Accountant string `json:"accountant"`
		Head       string `json:"ledger_head"`
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(ledger), "run.json"))
	if err != nil || json.Unmarshal(text, &saved) != nil {
		return "", ""
	}
	return saved.Accountant, saved.Head
}
