package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/simulation"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/host/atomicfile"
	"github.com/spf13/cobra"
)

func newSimulate(term *terminal.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "simulate",
		Short:   "Simulate training with many clients in one process",
		Long:    "Simulates training with many clients in one process.",
		Example: "  dptrain simulate drawdiscard --out runs/simulation",
	}
	groupSubcommands(cmd)
	cmd.AddCommand(newSimulateDrawDiscard(term))
	return cmd
}

// rowsFile contains the results of a simulation.
const rowsFile = "rows.json"

func newSimulateDrawDiscard(term *terminal.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drawdiscard",
		Short: "Compare draw and discard with server batches and central DP-SGD",
		Long: `Trains a generalised linear model or a network by draw and discard with several numbers of
instances, by batches on the server, and by central DP-SGD with the client as the record,
for several ε: the experiment of Pihur et al. 2018, figure 2. It also measures the variance
among instances over updates, and the way of a single instance, as in figure 1. --out gets
report.html, rows.json and the ledgers of the central runs.

--epsilons are those of one contribution and one weight for draw and discard and for
batches, and those of the whole training for central DP-SGD. The default is the paper's
experiment on digits that dptrain draws itself, with multinomial logistic regression.
The report has the accuracy, or of a target and a count the root mean squared error, on
test examples, and the loss on training examples.

A simulation protects no client: its noise comes from a seed and a fast generator that is
not cryptographic. Use public data.`,
		Example: `  dptrain simulate drawdiscard --out runs/simulation
  dptrain simulate drawdiscard --data mnist --data-dir ~/mnist --out runs/figure2 --seed 1
  dptrain simulate drawdiscard --model mlp:32 --clip 0.1 --instances 1,10 --epsilons none,10 --out runs/network
  dptrain simulate drawdiscard --data visits.csv --test public.csv --target visits --bounds age=0:120,visits=0:30 --model poisson --clip 5 --lr 0.01 --out runs/counts
  dptrain simulate drawdiscard --clients 500 --passes 4 --instances 1,10 --batches 10 --epsilons none,2 --lr 0.01 --out runs/quick`,
		Args: noArguments,
	}
	s := &simulation.Settings{}
	var source settings.DataFlags
	var epsilons []string
	var out string
	f := cmd.Flags()
	f.StringVar(&source.Data, "data", "digits", "data set: see dptrain data")
	source.Define(f)
	f.StringVar(&s.Model, "model", "", "linear, logistic, multinomial, poisson, or a network of dptrain models (default: multinomial, or linear for a --target)")
	f.Float64Var(&s.Clip, "clip", 1, "bound on each element of a client's average gradient; the noise is proportional to it")
	f.IntVar(&s.Clients, "clients", 6000, "the number of clients, at most; fewer if the data have fewer records")
	f.IntVar(&s.Records, "records", 10, "the number of records of a client")
	f.IntVar(&s.Passes, "passes", 20, "the number of contributions of each client")
	f.IntSliceVar(&s.Instances, "instances", []int{1, 5, 10, 20, 50, 100}, "numbers k of instances, separated by commas")
	f.IntSliceVar(&s.Batches, "batches", []int{10, 100, 1000, 10000}, "numbers of clients in a batch on the server")
	f.StringSliceVar(&epsilons, "epsilons", []string{"none", "10", "5", "2", "1", "0.5"}, "values of ε; none trains without privacy")
	f.Float64SliceVar(&s.Rates, "lr", []float64{0.1, 0.01, 0.001}, "learning rates of draw and discard and of batches; the report shows the best of each line")
	f.Uint64Var(&s.Seed, "seed", 0, "seed that makes the results reproducible (default: random)")
	f.IntVar(&s.Threads, "threads", 0, "trainings at the same time (default: one for each processor); the results do not depend on it")
	f.StringVar(&out, "out", "", "directory for the results (default runs/<time>)")
	cmd.RunE = func(*cobra.Command, []string) error {
		var err error
		if s.Epsilons, err = simulation.ParseEpsilons(epsilons); err != nil {
			return err
		}
		if !f.Changed("threads") {
			s.Threads = runtime.GOMAXPROCS(0)
		}
		if err := s.Check(); err != nil {
			return err
		}
		if !f.Changed("seed") {
			s.Seed = rand.Uint64()
		}
		if out == "" {
			out = rundir.NameByTime("runs")
		}
		return simulate(term, s, &source, out)
	}
	return cmd
}

func simulate(term *terminal.Terminal, s *simulation.Settings, source *settings.DataFlags, out string) error {
	if source.Standardize {
		return exitcode.Usagef("--standardize has no meaning here: clients scale features to [0, 1]; drop the flag")
	}
	started := time.Now()
	if _, err := os.Stat(filepath.Join(out, rowsFile)); err == nil {
		return exitcode.Usagef("--out %s already contains a simulation (%s): choose another directory", out, rowsFile)
	}
	schema, err := source.ReadSchema(data.Schema{})
	if err != nil {
		return exitcode.AsUsage(err)
	}
	image, err := source.ImageShape()
	if err != nil {
		return err
	}
	task, err := readData(term, source.Data, data.Options{Dir: source.DataDir, Test: source.Test,
		Standardize: source.Standardize, Schema: schema, Image: image})
	if err != nil {
		return exitcode.AsUsage(err)
	}
	release, err := rundir.Create(out)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	defer release()
	s.Ledgers = filepath.Join(out, "ledgers")
	term.Note("Warning: a simulation is insecure: its noise comes from seed %d. No model of it protects the clients.", s.Seed)
	ctx, stop := untilInterrupted()
	defer stop()
	progress := newSimulationProgress(term)
	result, err := simulation.Run(ctx, *s, task, progress.update)
	progress.close()
	switch {
	case err != nil && ctx.Err() != nil:
		return &exitcode.Error{Code: exitcode.Interrupted, Err: errors.New("interrupted; the simulation wrote no results; start it again")}
	case err != nil:
		return exitcode.AsFailure(err)
	}
	result.Seconds, result.Version = time.Since(started).Seconds(), currentBuild().Version
	if err := writeSimulation(result, out); err != nil {
		return exitcode.AsFailure(err)
	}
	return term.Print(struct {
		*report.Simulation
		Out string `json:"out"`
	}{result, out}, out, func(w io.Writer) { printSimulation(w, result, out) })
}

func writeSimulation(result *report.Simulation, out string) error {
	page, err := result.Page()
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(out, rundir.ReportFile), page); err != nil {
		return err
	}
	rows, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(out, rowsFile), append(rows, '\n'))
}

// printSimulation prints the final accuracies: a line for each method and setting, a column for each ε.
func printSimulation(w io.Writer, r *report.Simulation, out string) {
	var names []string
	cells := map[string][]string{}
	header := []string{""}
	last := math.NaN()
	for _, row := range r.Best() {
		if e := float64(row.Epsilon); e != last {
			header, last = append(header, report.EpsilonName(row.Epsilon)), e
		}
		name := row.Name()
		if cells[name] == nil {
			names = append(names, name)
		}
		cells[name] = append(cells[name], row.FinalText())
	}
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, name := range names {
		fmt.Fprintf(w, "%s\t%s\n", name, strings.Join(cells[name], "\t"))
	}
	if agreements := r.Agreements(); len(agreements) > 0 {
		fmt.Fprintf(w, "\npairs of k and ε that agree to %.0f points:\nlearning rate\tnoise\tk ≈ √batch\tk ≈ batch\n", 100*report.ClaimMargin)
		for _, a := range agreements {
			fmt.Fprintf(w, "%s\t%s\t%d of %d\t%d of %d\n", a.Rates, a.Noise, a.Square, a.Pairs, a.Same, a.Pairs)
		}
	}
	fmt.Fprintf(w, "\nINSECURE: a simulation. wrote %s and %s in %s\n", rundir.ReportFile, rowsFile, out)
}

// simulationProgress shows how many contributions are done, from several goroutines.
type simulationProgress struct {
	mu      sync.Mutex
	term    *terminal.Terminal
	bar     *terminal.ProgressBar
	started time.Time
	noted   time.Time
}

func newSimulationProgress(term *terminal.Terminal) *simulationProgress {
	return &simulationProgress{term: term, started: time.Now(), noted: time.Now()}
}

// progressNoteInterval is the time between notes where no bar can be drawn.
const progressNoteInterval = 15 * time.Second

func (p *simulationProgress) update(done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil {
		p.bar = p.term.NewProgressBar(total)
	}
	elapsed := time.Since(p.started)
	left := terminal.TimeLeft(elapsed, done, total-done)
	if p.bar == nil && done < total && time.Since(p.noted) >= progressNoteInterval {
		p.noted = time.Now()
		p.term.Note("%s of %s contributions, %s", number.Thousands(done), number.Thousands(total), left)
	}
	p.bar.Update(done, func() []string {
		return []string{left, fmt.Sprintf("%s contributions/s", number.Thousands(int(float64(done)/elapsed.Seconds())))}
	})
}

func (p *simulationProgress) close() { p.bar.Hide() }
