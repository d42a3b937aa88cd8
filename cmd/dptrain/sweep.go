package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/flags"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/sweep"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/cuda"
	"github.com/dptrain/dptrain/internal/host/atomicfile"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// tableFile has the rows of a sweep as CSV.
const tableFile = "rows.csv"

// unusedBySweep lists the flags of train that sweep refuses.
var unusedBySweep = []string{"resume", "budget", "metrics-addr", "metrics-remote", "mpi", "show-private", "dry-run", "print-config"}

// sweepFlags are the flags of sweep, besides those of train.
type sweepFlags struct {
	train      settings.Flags
	over       []string
	name       string
	oneAtATime bool
	repeats    int
	jobs       int
	public     bool
}

func newSweep(term *terminal.Terminal) *cobra.Command {
	s := &sweepFlags{}
	cmd := &cobra.Command{
		Use:     "sweep",
		Short:   "Train with several values of some settings, on public data",
		Long:    helpOf("sweep").long,
		Example: helpOf("sweep").examples,
		Args:    noArguments,
	}
	f := cmd.Flags()
	s.train.Define(f)
	completeChoices(cmd, settings.Choices())
	for _, name := range unusedBySweep {
		f.Lookup(name).Hidden = true
	}
	flags.Section(f, "Sweep", func(f *pflag.FlagSet) {
		f.StringArrayVar(&s.over, "over", nil, "NAME=A,B,…: a flag of train and its values; values that contain a comma are separated by | (repeatable)")
		f.StringVar(&s.name, "sweep", "", "an experiment of a paper, in place of --over: "+flags.Alternatives(sweep.Names()))
		f.BoolVar(&s.oneAtATime, "one-at-a-time", false, "change one setting at a time; the others keep the values of their flags (default: every combination)")
		f.IntVar(&s.repeats, "repeats", 3, "runs with each setting, which differ in their random numbers")
		f.IntVar(&s.jobs, "jobs", 0, "runs at the same time (default: the processors divided by --threads, which is then 1; on a GPU 1)")
		f.BoolVar(&s.public, "public", false, "declare that the data are public: no record in them needs protection")
	})
	flags.Complete(cmd, "sweep", sweep.Names())
	cmd.RunE = func(*cobra.Command, []string) error { return runSweep(term, s, f) }
	return cmd
}

// sweepPlan is what a sweep runs.
type sweepPlan struct {
	axes     []sweep.Axis
	settings []sweep.Setting
	flags    []string // of train, for all runs
	out      string
	repeats  int
	seed     *uint64
	public   bool
}

// plan checks the flags.
func (s *sweepFlags) plan(f *pflag.FlagSet) (*sweepPlan, error) {
	for _, name := range unusedBySweep {
		if f.Changed(name) {
			return nil, exitcode.Usagef("--%s has no meaning for sweep: drop it; see dptrain sweep --help", name)
		}
	}
	if s.repeats < 1 || s.jobs < 0 {
		return nil, exitcode.Usagef("--repeats and --jobs: give at least 1")
	}
	p := &sweepPlan{repeats: s.repeats, out: s.train.Out, public: s.public}
	var defaults []sweep.Value
	oneAtATime := s.oneAtATime
	switch {
	case s.name != "" && len(s.over) > 0:
		return nil, exitcode.Usagef("--sweep and --over exclude each other: drop one of them")
	case s.name != "":
		named, err := sweep.FindNamed(s.name)
		if err != nil {
			return nil, err
		}
		p.axes, defaults, oneAtATime = named.Axes, named.Flags, named.OneAtATime
	case len(s.over) == 0:
		return nil, exitcode.Usagef("--over is missing: name a setting and its values, as in --over clip=0.5,1,2")
	}
	trainFlags := newTrainFlags(&settings.Flags{})
	for _, text := range s.over {
		a, err := sweep.ParseAxis(text, func(name string) bool {
			return trainFlags.Lookup(name) != nil && !slices.Contains(unusedBySweep, name) && name != "out" && name != "seed"
		})
		if err != nil {
			return nil, err
		}
		p.axes = append(p.axes, a)
	}
	for i, a := range p.axes {
		if slices.ContainsFunc(p.axes[:i], func(b sweep.Axis) bool { return b.Flag == a.Flag }) {
			return nil, exitcode.Usagef("--over %s is there twice: give all its values at once", a.Flag)
		}
		if f.Changed(a.Flag) && !oneAtATime {
			return nil, exitcode.Usagef("--%s has one value and --over %[1]s several: drop one of them, or add --one-at-a-time", a.Flag)
		}
	}
	p.settings = sweep.Settings(p.axes, oneAtATime)
	for _, d := range defaults {
		if !f.Changed(d.Flag) {
			p.flags = append(p.flags, "--"+d.Flag+"="+d.Value)
		}
	}
	f.Visit(func(flag *pflag.Flag) {
		if trainFlags.Lookup(flag.Name) == nil || flag.Name == "out" || flag.Name == "seed" {
			return
		}
		p.flags = append(p.flags, arguments(flag)...)
	})
	if f.Changed("seed") {
		p.seed = &s.train.Seed
	}
	if !f.Changed("threads") {
		p.flags = append(p.flags, "--threads=1")
	}
	if p.out == "" {
		p.out = rundir.NameByTime("runs")
	}
	return p, nil
}

// newTrainFlags defines the flags of train in a set of their own.
func newTrainFlags(f *settings.Flags) *pflag.FlagSet {
	set := pflag.NewFlagSet("train", pflag.ContinueOnError)
	f.Define(set)
	return set
}

// jobCount is the number of runs at the same time.
func (s *sweepFlags) jobCount() int {
	if s.jobs > 0 {
		return s.jobs
	}
	if name := s.train.Device.Name; name != "cpu" && name != "gorgonia" {
		if gpus, err := cuda.Devices(); err == nil && len(gpus) > 0 {
			return 1
		}
	}
	return max(1, runtime.GOMAXPROCS(0)/max(1, s.train.Device.Threads))
}

// sweepRun is one run of a sweep.
type sweepRun struct {
	setting, repeat int
	args            []string
	dir             string
}

// runs lists all runs: the first one of each setting, then the repetitions. The name of a directory has
// a hash of all flags, so other flags have other directories.
func (p *sweepPlan) runs() (all []sweepRun) {
	for repeat := range p.repeats {
		for i, s := range p.settings {
			args := slices.Clone(p.flags)
			for _, v := range s {
				prefix := "--" + v.Flag + "="
				args = append(slices.DeleteFunc(args, func(a string) bool { return strings.HasPrefix(a, prefix) }), prefix+v.Value)
			}
			sum := sha256.Sum256([]byte(strings.Join(args, "\x00")))
			if p.seed != nil {
				args = append(args, "--seed="+strconv.FormatUint(*p.seed+uint64(repeat), 10))
				sum = sha256.Sum256([]byte(strings.Join(args, "\x00")))
			}
			readable := unsafeInName.ReplaceAllString(strings.ReplaceAll(s.String(), " ", ","), "_")
			name := fmt.Sprintf("%s-%s-%d", readable, hex.EncodeToString(sum[:4]), repeat+1)
			all = append(all, sweepRun{i, repeat, args, filepath.Join(p.out, name)})
		}
	}
	return all
}

var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9=.,@+-]`)

// check resolves the flags of each setting, and prepares the first run without its directory: wrong
// flags, data that are not declared public and data without a test part end the sweep before anything is
// trained.
func (p *sweepPlan) check(runs []sweepRun) (data string, err error) {
	var first *settings.Flags
	for _, r := range runs[:len(p.settings)] {
		resolved, err := resolveTrain(r.args)
		if err != nil {
			return "", exitcode.AsUsage(fmt.Errorf("%s: %w", p.settings[r.setting], err))
		}
		if first == nil {
			first = resolved
		}
	}
	spec, err := newSpec(childTerminal(), first)
	switch {
	case err != nil:
		return "", exitcode.AsUsage(err)
	case spec.Task.Private && !p.public:
		return "", exitcode.Usagef("%s may contain private records, and the choice of a setting by the results would not be accounted: use dptrain tune, or declare with --public that no record needs protection", spec.Task.Name)
	case spec.Task.Test == nil:
		return "", exitcode.Usagef("%s has no test part to compare settings on: name a file with --test", spec.Task.Name)
	}
	return spec.Task.Name, nil
}

// childTerminal is the terminal of a run, which prints nothing.
func childTerminal() *terminal.Terminal {
	return &terminal.Terminal{Out: io.Discard, Err: io.Discard, Quiet: true}
}

func runSweep(term *terminal.Terminal, s *sweepFlags, f *pflag.FlagSet) error {
	started := time.Now()
	p, err := s.plan(f)
	if err != nil {
		return err
	}
	runs := p.runs()
	name, err := p.check(runs)
	if err != nil {
		return err
	}
	release, err := rundir.Create(p.out)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	defer release()
	term.Note("Sweep of %d settings, %d runs, %d at the same time, in %s.", len(p.settings), len(runs), min(len(runs), s.jobCount()), p.out)
	if err := p.trainAll(term, runs, s.jobCount()); err != nil {
		return err
	}
	result := &report.Sweep{Data: name, Seconds: time.Since(started).Seconds(), Version: currentBuild().Version,
		Out: p.out, Command: "dptrain sweep " + strings.Join(commandFlags(f), " ")}
	for _, a := range p.axes {
		result.Flags = append(result.Flags, a.Flag)
	}
	for i, setting := range p.settings {
		var dirs []string
		for _, r := range runs {
			if r.setting == i {
				dirs = append(dirs, r.dir)
			}
		}
		row, err := sweep.ReadRow(setting, dirs)
		if err != nil {
			return exitcode.AsFailure(err)
		}
		result.Rows = append(result.Rows, row)
	}
	if err := writeSweep(result, p); err != nil {
		return exitcode.AsFailure(err)
	}
	return term.Print(result, p.out, func(w io.Writer) { printSweep(w, result) })
}

// commandFlags writes the flags that the user gave.
func commandFlags(f *pflag.FlagSet) (words []string) {
	f.Visit(func(flag *pflag.Flag) {
		for _, a := range arguments(flag) {
			words = append(words, rundir.ShellQuote(a))
		}
	})
	return words
}

// arguments writes a flag with its value, or with each of its values.
func arguments(flag *pflag.Flag) (words []string) {
	values := []string{flag.Value.String()}
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		values = list.GetSlice()
	}
	for _, v := range values {
		words = append(words, "--"+flag.Name+"="+v)
	}
	return words
}

// trainAll trains all runs that have not ended, some at the same time.
func (p *sweepPlan) trainAll(term *terminal.Terminal, runs []sweepRun, jobs int) error {
	var (
		mu      sync.Mutex
		failed  error
		done    int
		trained int
		warned  []string
		workers sync.WaitGroup
	)
	started, queue := time.Now(), make(chan sweepRun, len(runs))
	for _, r := range runs {
		if isFinished(r.dir) {
			done++
			continue
		}
		queue <- r
	}
	close(queue)
	if done > 0 {
		term.Note("%d of %d runs have ended before.", done, len(runs))
	}
	bar := term.NewProgressBar(len(runs))
	defer bar.Hide()
	report := func(r sweepRun, child *terminal.Terminal) {
		done, trained = done+1, trained+1
		for _, text := range child.Warnings() {
			if !slices.Contains(warned, text) {
				warned = append(warned, text)
				bar.Hide()
				term.Warn("%s", text)
			}
		}
		left := terminal.TimeLeft(time.Since(started), trained, len(runs)-done)
		if bar == nil {
			term.Note("%d of %d runs, %s: %s", done, len(runs), left, p.settings[r.setting])
		}
		bar.Update(done, func() []string { return []string{left, p.settings[r.setting].String()} })
	}
	for range min(jobs, len(runs)) {
		workers.Go(func() {
			for r := range queue {
				mu.Lock()
				stop := failed != nil
				mu.Unlock()
				if stop {
					return
				}
				child := childTerminal()
				err := trainOne(child, r)
				mu.Lock()
				switch {
				case err == nil:
					report(r, child)
				case failed == nil || exitcode.Of(failed) == exitcode.Interrupted:
					failed = fmt.Errorf("%s: %w", p.settings[r.setting], err)
					if code := exitcode.Of(err); code != exitcode.Failed {
						failed = &exitcode.Error{Code: code, Err: failed}
					}
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	if exitcode.Of(failed) == exitcode.Interrupted {
		return &exitcode.Error{Code: exitcode.Interrupted, Err: fmt.Errorf("interrupted after %d of %d runs; all lots are saved: start the same command again, with --out %s", done, len(runs), rundir.ShellQuote(p.out))}
	}
	return failed
}

// isFinished reports whether a directory has a run that needs no more lots.
func isFinished(dir string) bool {
	s, err := rundir.Read(dir)
	return err == nil && !s.Interrupted
}

// trainOne trains one run, or continues it.
func trainOne(term *terminal.Terminal, r sweepRun) error {
	args := append(slices.Clone(r.args), "--out="+r.dir)
	if _, err := os.Stat(filepath.Join(r.dir, rundir.ConfigFile)); err == nil {
		args = []string{"--resume=" + r.dir, "--threads=" + valueOf(r.args, "threads")}
	}
	resolved, err := resolveTrain(args)
	if err != nil {
		return err
	}
	return train(term, resolved, membership{})
}

// resolveTrain parses flags of train.
func resolveTrain(args []string) (*settings.Flags, error) {
	f := &settings.Flags{}
	if err := newTrainFlags(f).Parse(args); err != nil {
		return nil, exitcode.Usagef("%w", err)
	}
	return f, f.Resolve()
}

// valueOf returns the value of a flag among arguments.
func valueOf(args []string, name string) string {
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, "--"+name+"="); ok {
			return v
		}
	}
	return "0"
}

func writeSweep(result *report.Sweep, p *sweepPlan) error {
	page, err := result.Page()
	if err != nil {
		return err
	}
	rows, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	table, err := sweep.Table(p.axes, result.Rows)
	if err != nil {
		return err
	}
	return errors.Join(
		atomicfile.Write(filepath.Join(p.out, rundir.ReportFile), page),
		atomicfile.Write(filepath.Join(p.out, tableFile), table),
		atomicfile.Write(filepath.Join(p.out, rowsFile), append(rows, '\n')))
}

func printSweep(w io.Writer, r *report.Sweep) {
	fmt.Fprintf(w, "%s\tresult\tε\tlots\n", strings.Join(r.Flags, "\t"))
	for _, row := range r.Rows {
		for _, flag := range r.Flags {
			fmt.Fprintf(w, "%s\t", row.Settings[flag])
		}
		fmt.Fprintf(w, "%s\t%.4g\t%d\n", row.Result(), float64(row.Epsilon), row.Steps)
	}
	fmt.Fprintf(w, "wrote %s, %s and %s in %s\n", rundir.ReportFile, tableFile, rowsFile, r.Out)
}
