package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/flags"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	_ "github.com/dptrain/dptrain/engine/data/columnar" // Parquet, Arrow and Feather
	"github.com/dptrain/dptrain/internal/ranks"
	"github.com/spf13/cobra"
)

func main() {
	collectOften()
	ranks.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// collectOften limits the garbage on the heap. The cost is small: most long-lived memory holds
// numbers, which the collector does not scan. GOGC overrides it.
func collectOften() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(25)
	}
}

// run executes the program with the given arguments and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	term := &terminal.Terminal{In: stdin, Out: stdout, Err: stderr}
	root := newRoot(term)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		if err := flags.ServeCompletion(root); err != nil {
			panic(err) // two commands share a flag
		}
	}
	cmd, err := root.ExecuteC()
	if err != nil {
		fmt.Fprintln(term.Err, errorLine(cmd, err))
	}
	return exitcode.Of(err)
}

func newRoot(term *terminal.Terminal) *cobra.Command {
	root := &cobra.Command{
		Use:   "dptrain",
		Short: "Train neural networks with differential privacy",
		Long: `dptrain trains neural networks on private data with DP-SGD and accounts for the privacy
cost: an (ε, δ) that anyone can recompute from the run's ledger.

Exit codes: 0 done; 1 the run failed; 2 invalid arguments, configuration or data; 3 the
budget does not allow the run; 4 a ledger or checkpoint fails verification; 130
interrupted, with everything saved.`,
		Example: `  dptrain train
  dptrain budget epsilon --rate 0.01 --noise 4 --steps 10000 --delta 1e-5
  dptrain ledger verify runs/mnist/ledger.jsonl`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.PersistentFlags().BoolVar(&term.JSON, "json", false, "print one JSON object and nothing else on standard output")
	root.PersistentFlags().BoolVar(&term.Quiet, "quiet", false, "print the bare result, without progress and notes")
	root.SetFlagErrorFunc(explainFlagError)
	root.SetHelpCommand(newHelp())
	root.SetUsageFunc(func(cmd *cobra.Command) error { return printUsage(cmd, term.Columns()) })
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Train and use models", []*cobra.Command{newTrain(term), newPlan(term), newSchema(term), newEval(term), newPredict(term),
			newTune(term), newSweep(term), newChoose(term), newReport(term), newExport(term), newTokenize(term), newGenerate(term)}},
		{"Account for privacy", []*cobra.Command{newBudget(term), newLedger(term)}},
		{"Learn from data that stay with their owners", []*cobra.Command{newServe(term), newContribute(term), newSimulate(term)}},
		{"Show what there is", []*cobra.Command{newLearn(term), newData(term), newModels(term), newPresets(term), newDevices(term),
			newDoctor(term), newVersion(term)}},
		{"Set up a shell", []*cobra.Command{newCompletion(term), newMan(term)}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.title
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("Set up a shell")
	groupSubcommands(root)
	addVersionFlag(root, term)
	flags.ReadDecimal(root)
	return root
}
