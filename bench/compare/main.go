// Command compare times every workload with dptrain and with its peers, one program at a time, and
// writes the results as a table.
//
// Run it from the root of the repository on a machine with nothing else to do:
//
//	go run ./bench/compare
//
// If it is built with the tag gpu, -device cuda times all programs on the first GPU, and the result
// files are named after the card. It needs Python 3.11 or later. The first run needs the network,
// because it installs the peers into a virtual environment outside the repository.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dptrain/dptrain/bench"
	"github.com/dptrain/dptrain/cuda"
)

func main() {
	var c comparison
	flag.StringVar(&c.python, "python", "python3", "Python that creates the environment of the peers")
	flag.StringVar(&c.venv, "venv", filepath.Join(os.TempDir(), "dptrain-peers", "venv"), "virtual environment of the peers, created if it is missing; empty: use the packages of -python")
	flag.StringVar(&c.peers, "peers", filepath.Join("bench", "peers"), "folder of the peers' scripts")
	flag.StringVar(&c.out, "out", filepath.Join("bench", "results"), "output folder")
	flag.StringVar(&c.device, "device", "cpu", "cpu or cuda")
	precisions := flag.String("precision", "fp32", "precisions of matrix products on a GPU: a comma-separated list of fp32, tf32, bf16")
	flag.Func("check", "NAME=OUTCOME of another check on this machine, stored with the results", c.addCheck)
	flag.DurationVar(&c.time, "time", 3*time.Second, "duration of each measurement, after a warm-up of a third of it")
	flag.IntVar(&c.threads, "threads", 2, "threads per program")
	only := flag.String("only", "", "WORKLOADS or WORKLOADS/PROGRAMS: regular expressions that select a part of the table")
	flag.BoolVar(&c.add, "add", false, "keep the other measurements of existing result files")
	flag.BoolVar(&c.resume, "resume", false, "like -add, and skip what the existing result files contain, unless it failed once, or with another build; needs -device cuda, because a CPU is measured twice")
	flag.DurationVar(&c.timeout, "timeout", 2*time.Minute, "limit of one measurement; torch.compile needs most of it")
	flag.StringVar(&c.kernels, "kernels", "", "second archive of GPU kernels to time (make gpu-bundle)")
	flag.DurationVar(&c.limit, "limit", 0, "start no measurement after this time; the exit code is then 75, and -resume continues")
	tables := flag.String("tables", "", "measure nothing; update the tables of this Markdown file from the result files")
	step := flag.String("step", "", "time only dptrain on WORKLOAD/private, WORKLOAD/float or WORKLOAD/plain")
	flag.Parse()
	err := func() (err error) {
		for _, name := range strings.Split(*precisions, ",") {
			p, err := cuda.ParsePrecision(name)
			if err != nil {
				return err
			}
			c.precisions = append(c.precisions, p)
		}
		if c.device != "cpu" && c.device != "cuda" {
			return fmt.Errorf("-device %s is unknown; use cpu or cuda", c.device)
		}
		if c.resume && c.device != "cuda" {
			return errors.New("-resume needs -device cuda")
		}
		if *tables != "" {
			return c.writeTables(*tables)
		}
		if *step != "" {
			return c.printStep(*step)
		}
		workloads, programs, _ := strings.Cut(*only, "/")
		if c.workloads, err = regexp.Compile(workloads); err == nil {
			c.programs, err = regexp.Compile(programs)
		}
		if err != nil {
			return fmt.Errorf("-only %s: %w", *only, err)
		}
		return c.run()
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
	}
	switch {
	case errors.Is(err, errLimit):
		os.Exit(75) // EX_TEMPFAIL of sysexits.h: the same command can succeed later
	case err != nil:
		os.Exit(1)
	}
}

// errLimit means that measurements are left because of -limit.
var errLimit = errors.New("the time limit is reached; -resume continues")

type comparison struct {
	python, venv, peers, out, device string
	precisions                       []cuda.Precision
	checks                           map[string]string
	time                             time.Duration
	threads                          int
	workloads, programs              *regexp.Regexp // those that are measured
	add, resume                      bool
	limit                            time.Duration // 0: none
	timeout                          time.Duration // of one measurement
	kernels                          string        // second archive of GPU kernels, or ""
	build                            string        // identifies this program on a GPU
}

func (c *comparison) run() error {
	if err := c.installPeers(); err != nil {
		return err
	}
	m, err := c.machine()
	if err != nil {
		return err
	}
	r := results{Versions: map[string]string{}, Checks: map[string]string{}}
	if c.add || c.resume {
		if err := c.readExisting(&r, m.fileName()); err != nil {
			return err
		}
	}
	if c.device == "cuda" {
		if c.build, err = buildID(); err != nil {
			return err
		}
	}
	m.Peak = r.Machine.Peak
	r.Machine, r.Date, r.Seconds = m, time.Now().UTC().Format(time.DateOnly), c.time.Seconds()
	maps.Copy(r.Checks, c.checks)
	if len(c.checks) > 0 {
		if err := c.write(r); err != nil {
			return err
		}
	}
	// Results are written after every measurement, so a later failure loses nothing.
	earlier := results{Measurements: slices.Clone(r.Measurements)}
	timed, start := 0, time.Now()
	for _, precision := range c.precisions {
		for _, w := range bench.Workloads() {
			if !c.workloads.MatchString(w.Name) {
				continue
			}
			var row []measurement
			for _, p := range r.measurementOrder(c.kernels) {
				if !c.programs.MatchString(p.name) {
					continue
				}
				for _, records := range p.records {
					before := earlier.find(w, p, precision, records)
					if c.resume && before.isFinal(c.build) {
						row = append(row, *before)
						continue
					}
					if c.limit > 0 && time.Since(start) > c.limit {
						return errLimit
					}
					m := c.measure(w, p, precision, records)
					m.identify(c.build, before)
					fmt.Fprintf(os.Stderr, "%-15s %-16s %s %3d  %s\n", w.Name, p.name, precision, records, m)
					row = append(row, m)
					r.replace(row)
					if err := c.write(r); err != nil {
						return err
					}
				}
			}
			timed += len(row)
		}
	}
	r.writeRatios(os.Stderr, c.workloads)
	if timed == 0 && len(c.checks) == 0 {
		return fmt.Errorf("-only %v/%v: matches no workload and program; workloads are %s", c.workloads, c.programs, workloadNames())
	}
	return nil
}

func workloadNames() string {
	var list []string
	for _, w := range bench.Workloads() {
		list = append(list, w.Name)
	}
	return strings.Join(list, ", ")
}

// readExisting reads the existing result file, if there is one.
func (c *comparison) readExisting(r *results, name string) error {
	text, err := os.ReadFile(filepath.Join(c.out, name+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, r); err != nil {
		return fmt.Errorf("%s.json: %w", name, err)
	}
	return nil
}

func (c *comparison) addCheck(text string) error {
	name, outcome, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("the argument must have the form NAME=OUTCOME")
	}
	if c.checks == nil {
		c.checks = map[string]string{}
	}
	c.checks[name] = outcome
	return nil
}

func (c *comparison) write(r results) error {
	slices.SortStableFunc(r.Measurements, func(a, b measurement) int { return slices.Compare(r.sortKey(a), r.sortKey(b)) })
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	name := filepath.Join(c.out, r.Machine.fileName())
	if err := os.WriteFile(name+".json", append(text, '\n'), 0o644); err != nil {
		return err
	}
	if len(r.Measurements) > 0 {
		if err := os.WriteFile(name+".svg", []byte(r.chart()), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(name+".md", []byte(r.markdown()), 0o644)
}
