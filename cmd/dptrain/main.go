// Command dptrain trains networks on private data and says what it cost.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/flags"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

func main() {
	collectOften()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// collectOften keeps the process near what it uses. That costs next to nothing: what
// lives long is numbers, which the collector does not look through. GOGC overrules it.
func collectOften() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(25)
	}
}

// run is the whole program: arguments in, output and exit code out.
func run(args []string, stdout, stderr io.Writer) int {
	term := &terminal.Terminal{Out: stdout, Err: stderr}
	root := newRoot(term)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	if err != nil {
		fmt.Fprintln(term.Err, errorLine(cmd, err))
	}
	return exitcode.Of(err)
}

func newRoot(term *terminal.Terminal) *cobra.Command {
	root := &cobra.Command{
		Use:   "dptrain",
		Short: "Train networks with differential privacy, and know what it cost",
		Long: `dptrain trains neural networks on private data with DP-SGD, and says what that
cost: an (ε, δ) that anyone can compute again from the run's ledger.`,
		Example: `  dptrain train
  dptrain budget epsilon --rate 0.01 --noise 4 --steps 10000 --delta 1e-5
  dptrain ledger verify runs/mnist/ledger.jsonl`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.PersistentFlags().BoolVar(&term.JSON, "json", false, "print one JSON object and nothing else on standard output")
	root.PersistentFlags().BoolVar(&term.Quiet, "quiet", false, "print the bare result, and no progress or notes")
	root.SetFlagErrorFunc(explainFlagError)
	root.SetHelpCommand(newHelp())
	root.AddCommand(
		newTrain(term),
		newTune(term),
		newEval(term),
		newPredict(term),
		newExport(term),
		newReport(term),
		newBudget(term),
		newLedger(term),
		newData(term),
		newModels(term),
		newPresets(term),
		newDevices(term),
		newDoctor(term),
		newVersion(term),
		newCompletion(term),
		newMan(term),
	)
	groupSubcommands(root)
	flags.ReadDecimal(root)
	return root
}
