package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

type ledgerJSON struct {
	Unit      string           `json:"unit"`
	Records   int              `json:"records"`
	Adjacency ledger.Adjacency `json:"adjacency"`
	Secure    bool             `json:"secure"`
	Steps     int              `json:"steps"`
	Runs      int              `json:"runs"`
	Entries   int              `json:"entries"`
	Ended     bool             `json:"ended"`
	CutShort  bool             `json:"cut_short"` // the last line is; it counts as the most that it may have stated
	Head      string           `json:"head"`
	Spent     []spentJSON      `json:"spent"`
}

func newLedgerShow(term *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:     "show FILE",
		Short:   "Print what a ledger says was released",
		Example: "  dptrain ledger show runs/mnist\n  dptrain ledger show runs/mnist/ledger.jsonl --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, history, seal, cutShort, err := readLedger(args)
			if err != nil {
				return err
			}
			h := history.Header
			v := ledgerJSON{h.Unit, h.Records, h.Adjacency, h.Secure, history.LotCount(), seal.Runs, seal.Entries,
				seal.Ended, cutShort, seal.Head, spentOf(history)}
			return term.Print(v, strconv.Itoa(v.Steps), func(w io.Writer) { printLedger(w, v) })
		},
	}
}

func printLedger(w io.Writer, v ledgerJSON) {
	fmt.Fprintf(w, "unit of privacy\t%s\n", v.Unit)
	fmt.Fprintf(w, "records\t%d\n", v.Records)
	fmt.Fprintf(w, "adjacency\t%s\n", v.Adjacency)
	fmt.Fprintf(w, "generator\t%s\n", secureWords(v.Secure))
	fmt.Fprintf(w, "releases\t%d in %s\n", v.Steps, number.Plural(v.Runs, "run"))
	fmt.Fprintf(w, "state\t%s\n", stateWords(v.Ended, v.CutShort))
	fmt.Fprintf(w, "head\t%s\n", v.Head)
	fmt.Fprintf(w, "\nreleases\tsampling\tgroup\tmechanism\tsensitivity\tnoise\n")
	first := 1
	for _, spent := range v.Spent {
		lots := strconv.Itoa(first)
		if spent.Lots > 1 {
			lots = fmt.Sprintf("%d–%d", first, first+spent.Lots-1)
		}
		first += spent.Lots
		sampling := samplingWords(spent.Sampling)
		for _, q := range spent.Queries {
			fmt.Fprintf(w, "%s\t%s\t%q\t%s\t%g\t%g\n", lots, sampling, q.Group, q.Mechanism, q.Sensitivity, q.Noise)
			lots, sampling = "", ""
		}
	}
}

func secureWords(secure bool) string {
	if secure {
		return "cryptographic"
	}
	return "INSECURE: seeded or not cryptographic, for experiments only"
}

func samplingWords(s ledger.Sampling) string {
	switch s.Policy {
	case ledger.Poisson:
		return fmt.Sprintf("poisson, rate %g", s.Rate)
	case ledger.FullBatch:
		return "every record"
	}
	return fmt.Sprintf("%s, %d of %d", s.Policy, s.LotSize, s.Records)
}
