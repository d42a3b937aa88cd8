// Command compare times every workload under dptrain and under its peers, one
// after the other and never two at once, and writes the table side by side.
//
// Run it from the root of the repository on a machine with nothing else to do:
//
//	go run ./bench/compare
//
// Built with the tag gpu it times the first GPU with -device cuda, and the peers
// there; the results are then named after the card. It needs Python 3.11 or later and,
// the first time, the network: the peers are installed into a virtual environment
// outside the tree.
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
	flag.StringVar(&c.python, "python", "python3", "the Python to make the environment with")
	flag.StringVar(&c.venv, "venv", filepath.Join(os.TempDir(), "dptrain-peers", "venv"), "the environment of the peers, made where it is not there; none: the peers that -python has")
	flag.StringVar(&c.peers, "peers", filepath.Join("bench", "peers"), "the folder of the peers' scripts")
	flag.StringVar(&c.out, "out", filepath.Join("bench", "results"), "the folder for the results")
	flag.StringVar(&c.device, "device", "cpu", "cpu or cuda")
	precisions := flag.String("precision", "fp32", "of products on a GPU: one or more of fp32, tf32, bf16, with commas between")
	flag.Func("check", "NAME=OUTCOME of something else that was run on the machine, to be kept with the results", c.check)
	flag.DurationVar(&c.time, "time", 3*time.Second, "how long each is measured, after a third of it to warm up")
	flag.IntVar(&c.threads, "threads", 2, "threads for each")
	only := flag.String("only", "", "WORKLOADS or WORKLOADS/PROGRAMS, a regular expression each, for a part of the table")
	flag.BoolVar(&c.add, "add", false, "keep what the results that are there hold beside that part")
	readme := flag.String("readme", "", "measure nothing, but write the tables of this README anew from the results")
	step := flag.String("step", "", "time dptrain alone on WORKLOAD/private or WORKLOAD/plain")
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
			return fmt.Errorf("-device %s: cpu or cuda", c.device)
		}
		if *readme != "" {
			return c.readme(*readme)
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
		os.Exit(1)
	}
}

type comparison struct {
	python, venv, peers, out, device string
	precisions                       []cuda.Precision
	checks                           map[string]string
	time                             time.Duration
	threads                          int
	workloads, programs              *regexp.Regexp // that are measured
	add                              bool
}

func (c *comparison) run() error {
	if err := c.install(); err != nil {
		return err
	}
	m, err := c.machine()
	if err != nil {
		return err
	}
	r := results{Versions: map[string]string{}, Checks: map[string]string{}}
	if c.add {
		if err := c.keep(&r, m.name()); err != nil {
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
	// What is done is kept, should what comes later end the run.
	timed := 0
	for _, precision := range c.precisions {
		for _, w := range bench.Workloads() {
			if !c.workloads.MatchString(w.Name) {
				continue
			}
			var row []measurement
			for _, p := range r.order() {
				if !c.programs.MatchString(p.name) {
					continue
				}
				for _, records := range p.records {
					m := c.measure(w, p, precision, records)
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
	if timed == 0 && len(c.checks) == 0 {
		return fmt.Errorf("-only %v/%v: nothing is of that name; workloads are %s", c.workloads, c.programs, names())
	}
	return nil
}

func names() string {
	var list []string
	for _, w := range bench.Workloads() {
		list = append(list, w.Name)
	}
	return strings.Join(list, ", ")
}

// keep reads the results that are there.
func (c *comparison) keep(r *results, name string) error {
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

func (c *comparison) check(text string) error {
	name, outcome, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("NAME=OUTCOME is needed")
	}
	if c.checks == nil {
		c.checks = map[string]string{}
	}
	c.checks[name] = outcome
	return nil
}

func (c *comparison) write(r results) error {
	slices.SortStableFunc(r.Measurements, func(a, b measurement) int { return slices.Compare(r.place(a), r.place(b)) })
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	name := filepath.Join(c.out, r.Machine.name())
	if err := os.WriteFile(name+".json", append(text, '\n'), 0o644); err != nil {
		return err
	}
	if len(r.Measurements) > 0 {
		if err := os.WriteFile(name+".svg", []byte(r.picture()), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(name+".md", []byte(r.markdown()), 0o644)
}
