package main

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/flags"
	"github.com/dptrain/dptrain/models"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// settings are the flags of train. Every flag is also a key of the configuration
// file; what is said on the command line wins over the file, the file over the
// preset.
type settings struct {
	data, dataDir, test, label, schema string
	classes, target, bounds            string
	vocabulary, ignore                 []string
	text, tokens                       string
	length                             int
	next, standardize                  bool
	preset, model, config, out, resume string
	init, fresh, freeze                string

	lot, microbatch, steps int
	rate, epochs           float64
	record, sampling       string
	userExamples           int

	clip, noise, epsilon, delta, stopAtEpsilon float64
	clipping, allocation, accountant           string
	validationSplit, validationNoise           float64
	project                                    int
	projectNoise                               float64
	augment                                    string
	views                                      int

	optimizer, schedule, device, precision string
	lrOf, decayOf, metricsAddr             string
	lr, ema                                float64
	threads                                int
	seed                                   uint64

	showPrivate, nonPrivate, printConfig, dryRun bool

	given    map[string]bool // flags that were set by any of the three ways
	extended float64         // a resumed run's new budget; 0: as it was
	cmd      *cobra.Command
}

var samplings = []string{string(sample.PolicyPoisson), string(sample.PolicyFixed), string(sample.PolicyShuffle)}

func (s *settings) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&s.data, "data", "digits", "data set: a name (see dptrain data), or a file or folder")
	s.dataFlags(f)
	f.StringVar(&s.preset, "preset", "", "a published run to repeat (see dptrain presets)")
	f.StringVar(&s.model, "model", "", "network, NAME[:ARGS] (see dptrain models); chosen by the data where not given")
	f.StringVar(&s.config, "config", "", "a YAML file with a key for each flag")
	f.StringVar(&s.out, "out", "", "folder for the run's files (default runs/<time>)")
	f.StringVar(&s.resume, "resume", "", "go on with the run in this folder; --steps, --epochs or --epsilon may extend it")

	f.Float64Var(&s.validationSplit, "validation-split", 0, "share of the private records to hold out, chosen by a hash; their accuracy, or the mean absolute error of a --target, is released with noise, once, and paid for")
	f.Float64Var(&s.validationNoise, "validation-noise", 0, "standard deviation added to their count of right answers, or to the sum of a --target's errors in widths of its bounds (default: what alone costs a twentieth of the budget)")
	f.IntVar(&s.project, "project", 0, "see of each example its products with so many principal directions alone; they are released with noise, once, before the first lot, and paid for")
	f.Float64Var(&s.projectNoise, "project-noise", 0, "standard deviation added to the sum that they are found from, where a record adds a matrix of norm 1 (default: what alone costs a quarter of the budget)")

	f.StringVar(&s.augment, "augment", "", "pictures: how each is changed at random, anew in every lot: flip, shift:PIXELS, or both with a comma between")
	f.IntVar(&s.views, "views", 1, "with --augment: how many views of a picture, each changed by itself, a gradient is the mean of before it is clipped; they cost time and no privacy")

	f.IntVar(&s.lot, "lot", 0, "records in a lot; with Poisson sampling the expected number (default 1024, or a fortieth of the data)")
	f.Float64Var(&s.rate, "rate", 0, "each record's probability to be in a lot, in place of --lot")
	f.Var((*countOrAuto)(&s.microbatch), "microbatch", "records computed together: a number, or auto")
	f.Float64Var(&s.epochs, "epochs", 15, "passes over the data, on average")
	f.IntVar(&s.steps, "steps", 0, "lots, in place of --epochs")
	f.StringVar(&s.record, "record", "example", "what is protected: example, microbatch:K or user:COLUMN")
	f.IntVar(&s.userExamples, "user-examples", 16, "examples of a user that take part, at most; the number is public")
	f.StringVar(&s.sampling, "sampling", "poisson", "how lots are drawn: "+flags.Alternatives(samplings))

	f.Float64Var(&s.clip, "clip", 1, "bound on the norm of a record's gradient")
	f.StringVar(&s.clipping, "clipping", "flat", "flat, per-layer, joint, normalized or adaptive")
	f.StringVar(&s.allocation, "allocation", "proportional", "noise among groups: proportional or dimension")
	f.Float64Var(&s.noise, "noise", 0, "noise multiplier: standard deviation over sensitivity")
	f.Float64Var(&s.epsilon, "epsilon", 2, "budget: the noise is chosen so that all steps together cost this (fixed lots: what is proven for any data); in place of --noise")
	f.Float64Var(&s.delta, "delta", 0, "δ (default: the largest power of ten below one over the records)")
	f.Float64Var(&s.stopAtEpsilon, "stop-at-epsilon", 0, "end before the lot that would cost more than this")
	addAccountantFlag(cmd, &s.accountant)

	f.StringVar(&s.optimizer, "optimizer", "momentum", strings.Join(optim.Kinds(), ", ")+"; options as in adam:beta2=0.99")
	f.Float64Var(&s.lr, "lr", 0.5, "learning rate; where none is given that of a --target is 0.05")
	f.StringVar(&s.lrOf, "lr-of", "", "LAYER=FACTOR,…: of these layers, what the learning rate is multiplied by; --dry-run names the layers")
	f.StringVar(&s.decayOf, "decay-of", "all", "what the optimizer's weight-decay shrinks: all, or matrices, which leaves out parameters of one dimension, as biases, gains and shifts are")
	f.StringVar(&s.schedule, "schedule", "constant", "constant, linear:TO@EPOCHS, cosine, step:FACTOR@EPOCH,…, warmup:STEPS[+SHAPE]")
	f.Float64Var(&s.ema, "ema", 0, "decay of a moving average of the weights, which is then what is kept")
	s.placeFlags(cmd)
	f.Uint64Var(&s.seed, "seed", 0, "repeat the same noise and lots; the run is then insecure and says so everywhere")
	f.StringVar(&s.init, "init", "", "starting weights, a safetensors file in dptrain's layout or PyTorch's")
	f.StringVar(&s.fresh, "fresh", "", "with --init: LAYER,… that start anew; what the file holds of them is not read, as a head for other classes")
	f.StringVar(&s.freeze, "freeze", "", "with --init: LAYER,… that keep the file's weights; the others are trained")
	f.StringVar(&s.metricsAddr, "metrics-addr", "", "HOST:PORT to answer Prometheus scrapes of /metrics on while the run goes on; :PORT is this machine alone")
	f.BoolVar(&s.showPrivate, "show-private", false, "also print values that depend on the private data, each line marked")
	f.BoolVar(&s.nonPrivate, "non-private", false, "no clipping and no noise: a baseline with ε = ∞")
	f.BoolVar(&s.dryRun, "dry-run", false, "describe the run, what it will cost and how long it may take, and spend nothing")
	f.BoolVar(&s.printConfig, "print-config", false, "print every setting as a configuration file and stop")

	flags.Complete(cmd, "sampling", samplings)
	flags.Complete(cmd, "clipping", clippings)
	flags.Complete(cmd, "optimizer", optim.Kinds())
	flags.Complete(cmd, "decay-of", decaying)
	flags.Complete(cmd, "allocation", []string{"proportional", "dimension"})
	var presets, networks []string
	for _, p := range models.Presets() {
		presets = append(presets, p.Name)
	}
	for _, m := range models.Supported() {
		networks = append(networks, m.Name)
	}
	flags.Complete(cmd, "preset", presets)
	flags.Complete(cmd, "model", networks)
}

// placeFlags are those that say where programs run.
func (s *settings) placeFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.device, "device", "auto", "auto, cpu, gorgonia or cuda:N")
	f.StringVar(&s.precision, "precision", "fp32", "products on a GPU: fp32, tf32 or bf16; norms, sums and noise are float32 always")
	f.IntVar(&s.threads, "threads", 0, "threads (default: GOMAXPROCS, one a processor that the process may use); results do not depend on it")
	flags.Complete(cmd, "device", []string{"auto", "cpu", "gorgonia"})
	flags.Complete(cmd, "precision", []string{"fp32", "tf32", "bf16"})
}

func (s *settings) place() engine.DeviceOptions {
	return engine.DeviceOptions{Name: s.device, Precision: s.precision, Threads: s.threads}
}

// dataFlags are those that say how to read the data set.
func (s *settings) dataFlags(f *pflag.FlagSet) {
	f.StringVar(&s.dataDir, "data-dir", "", "where a named data set's files lie")
	f.StringVar(&s.test, "test", "", "a second file of rows to test on; it is treated as public")
	f.StringVar(&s.label, "label", "", "CSV, JSONL: the column of the classes")
	f.StringVar(&s.classes, "classes", "", "CSV, JSONL, arrays: how many classes, or their names with commas between")
	f.StringVar(&s.target, "target", "", "CSV, JSONL: the column of a number to predict, in place of --label and --classes, with limits in --bounds; arrays: y")
	f.StringVar(&s.bounds, "bounds", "", "CSV, JSONL: public limits of numeric columns, COLUMN=LOW:HIGH,…")
	f.StringArrayVar(&s.vocabulary, "vocabulary", nil, "CSV, JSONL: public words of a column, COLUMN=WORD|WORD|…; once a column")
	f.StringVar(&s.text, "text", "", "CSV, JSONL: the column of text or indices, in place of bounds and vocabulary")
	f.StringVar(&s.tokens, "tokens", "", "how text becomes indices: bytes, words:FILE (a public vocabulary, one word a line), or a count, where it is indices already")
	f.IntVar(&s.length, "length", 0, "indices of an example, a public number: longer texts are cut, shorter ones padded")
	f.BoolVar(&s.next, "next", false, "a language model: the label of each step is the index that follows")
	f.StringSliceVar(&s.ignore, "ignore", nil, "CSV, JSONL: columns that are not read")
	f.StringVar(&s.schema, "schema", "", "a YAML file that says all of this, as in "+data.SchemaExample)
	f.BoolVar(&s.standardize, "standardize", false, "pictures: shift and scale by the published mean and deviation")
}

// countOrAuto is a number, or "auto" for 0.
type countOrAuto int

func (c *countOrAuto) Type() string { return "B|auto" }

func (c *countOrAuto) String() string {
	if *c == 0 {
		return "auto"
	}
	return fmt.Sprint(int(*c))
}

func (c *countOrAuto) Set(text string) error {
	*c = 0
	if text == "auto" {
		return nil
	}
	var n int
	if _, err := fmt.Sscanf(text, "%d", &n); err != nil || n < 1 || fmt.Sprint(n) != text {
		return fmt.Errorf("give a number from 1 on, or auto")
	}
	*c = countOrAuto(n)
	return nil
}

// complete fills in what a configuration file and a preset say and the command
// line does not, and finds what contradicts itself.
func (s *settings) complete(cmd *cobra.Command) error {
	s.given, s.cmd = map[string]bool{}, cmd
	empty := ""
	cmd.Flags().Visit(func(f *pflag.Flag) {
		s.given[f.Name] = true
		if f.Value.Type() == "string" && f.Value.String() == "" {
			empty = f.Name
		}
	})
	if empty != "" { // as a script's unset variable leaves it: not what was meant
		return exitcode.Usagef("--%s is empty: give a value, or leave it out", empty)
	}
	typed := maps.Clone(s.given)
	if s.given["stop-at-epsilon"] && !(s.stopAtEpsilon > 0) { // in a file 0 says that there is none
		return exitcode.Usagef("--stop-at-epsilon %v: a budget above 0 is needed; leave it out to train all steps", s.stopAtEpsilon)
	}
	if s.given["resume"] {
		if err := s.takeUp(); err != nil {
			return err
		}
	}
	if s.config != "" {
		if err := s.readConfig(); err != nil {
			return err
		}
	}
	if err := s.readPreset(); err != nil {
		return err
	}
	if !s.given["lr"] && s.predicts() {
		s.lr = targetRate
	}
	for _, pair := range alternatives {
		if s.given[pair[0]] && s.given[pair[1]] {
			return exitcode.Usagef("--%s and --%s were both given: one follows from the other", pair[0], pair[1])
		}
	}
	if err := s.baseline(typed); err != nil {
		return err
	}
	if typed["user-examples"] && !strings.HasPrefix(s.record, "user:") {
		return exitcode.Usagef("--user-examples %d: there are no users in --record %s; give --record user:COLUMN, or leave it out", s.userExamples, s.record)
	}
	if err := exitcode.CheckChoice("accountant", s.accountant, accountant.Names()); err != nil {
		return err
	}
	if err := exitcode.CheckChoice("clipping", s.clipping, clippings); err != nil {
		return err
	}
	if err := exitcode.CheckChoice("sampling", s.sampling, samplings); err != nil {
		return err
	}
	if err := exitcode.CheckChoice("decay-of", s.decayOf, decaying); err != nil {
		return err
	}
	if s.out == "" {
		s.out = "runs/" + time.Now().Format("2006-01-02_15-04-05.000")
	}
	return nil
}

// readPreset takes from a preset what was not given yet.
func (s *settings) readPreset() error {
	if s.preset == "" {
		return nil
	}
	p, err := models.FindPreset(s.preset)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	for _, f := range p.Flags {
		if s.overruled(f.Name) {
			continue
		}
		if err := s.cmd.Flags().Set(f.Name, f.Value); err != nil {
			return fmt.Errorf("preset %s: %w", p.Name, err)
		}
		s.given[f.Name] = true
	}
	return nil
}

// guarding are the flags that say how records are protected, and what that may cost.
var guarding = []string{"clip", "clipping", "allocation", "noise", "epsilon", "delta", "stop-at-epsilon", "accountant", "validation-noise", "project-noise"}

// baseline refuses what was typed for a run without privacy to ignore. A preset or a
// file may hold it, since --non-private makes the baseline of either.
func (s *settings) baseline(typed map[string]bool) error {
	if !s.nonPrivate {
		return nil
	}
	for _, name := range guarding {
		switch {
		case typed[name] && typed["non-private"]:
			return exitcode.Usagef("--%s and --non-private were both given: without privacy nothing is clipped, noised or accounted for; leave one of them out", name)
		case typed[name]:
			return exitcode.Usagef("--%s was given, and %s says non-private: nothing is clipped, noised or accounted for; leave one of them out", name, s.config)
		}
	}
	return nil
}
