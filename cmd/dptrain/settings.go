package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/internal/nearest"
	"github.com/dptrain/dptrain/models"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
)

// settings are the flags of train. Every flag is also a key of the configuration
// file; what is said on the command line wins over the file, the file over the
// preset.
type settings struct {
	data, dataDir, test, label, schema string
	classes, bounds                    string
	vocabulary, ignore                 []string
	text, tokens                       string
	length                             int
	next, standardize                  bool
	preset, model, config, out, init   string
	resume                             string

	lot, microbatch, steps int
	rate, epochs           float64
	record, sampling       string
	userExamples           int

	clip, noise, epsilon, delta, stopAtEpsilon float64
	clipping, allocation, accountant           string
	validationSplit, validationNoise           float64
	project                                    int
	projectNoise                               float64

	optimizer, schedule, device, precision string
	metricsAddr                            string
	lr, ema                                float64
	threads                                int
	seed                                   uint64

	showPrivate, nonPrivate, printConfig, dryRun bool

	given    map[string]bool // flags that were set by any of the three ways
	extended float64         // a resumed run's new budget; 0: as it was
	cmd      *cobra.Command
}

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

	f.Float64Var(&s.validationSplit, "validation-split", 0, "share of the private records to hold out, chosen by a hash; their accuracy is released with noise, once, and paid for")
	f.Float64Var(&s.validationNoise, "validation-noise", 0, "standard deviation added to their count of right answers (default: what alone costs a twentieth of the budget)")
	f.IntVar(&s.project, "project", 0, "see of each example its products with so many principal directions alone; they are released with noise, once, before the first lot, and paid for")
	f.Float64Var(&s.projectNoise, "project-noise", 0, "standard deviation added to the sum that they are found from, where a record adds a matrix of norm 1 (default: what alone costs a quarter of the budget)")

	f.IntVar(&s.lot, "lot", 0, "records in a lot; with Poisson sampling the expected number (default 1024, or a fortieth of the data)")
	f.Float64Var(&s.rate, "rate", 0, "each record's probability to be in a lot, in place of --lot")
	f.Var((*countOrAuto)(&s.microbatch), "microbatch", "records computed together: a number, or auto")
	f.Float64Var(&s.epochs, "epochs", 15, "passes over the data, on average")
	f.IntVar(&s.steps, "steps", 0, "lots, in place of --epochs")
	f.StringVar(&s.record, "record", "example", "what is protected: example, microbatch:K or user:COLUMN")
	f.IntVar(&s.userExamples, "user-examples", 16, "examples of a user that take part, at most; the number is public")
	f.StringVar(&s.sampling, "sampling", "poisson", "how lots are drawn: poisson, fixed or shuffle")

	f.Float64Var(&s.clip, "clip", 1, "bound on the norm of a record's gradient")
	f.StringVar(&s.clipping, "clipping", "flat", "flat, per-layer, joint, normalized or adaptive")
	f.StringVar(&s.allocation, "allocation", "proportional", "noise among groups: proportional or dimension")
	f.Float64Var(&s.noise, "noise", 0, "noise multiplier: standard deviation over sensitivity")
	f.Float64Var(&s.epsilon, "epsilon", 2, "budget: the noise is chosen so that all steps together cost this; in place of --noise")
	f.Float64Var(&s.delta, "delta", 0, "δ (default: the largest power of ten below one over the records)")
	f.Float64Var(&s.stopAtEpsilon, "stop-at-epsilon", 0, "end before the lot that would cost more than this")
	accountantFlag(cmd, &s.accountant)

	f.StringVar(&s.optimizer, "optimizer", "momentum", strings.Join(optim.Kinds(), ", ")+"; options as in adam:beta2=0.99")
	f.Float64Var(&s.lr, "lr", 0.5, "learning rate")
	f.StringVar(&s.schedule, "schedule", "constant", "constant, linear:TO@EPOCHS, cosine, step:FACTOR@EPOCH,…, warmup:STEPS[+SHAPE]")
	f.Float64Var(&s.ema, "ema", 0, "decay of a moving average of the weights, which is then what is kept")
	s.placeFlags(cmd)
	f.Uint64Var(&s.seed, "seed", 0, "repeat the same noise and lots; the run is then insecure and says so everywhere")
	f.StringVar(&s.init, "init", "", "starting weights, a safetensors file in dptrain's layout or PyTorch's")
	f.StringVar(&s.metricsAddr, "metrics-addr", "", "HOST:PORT to answer Prometheus scrapes of /metrics on while the run goes on; :PORT is this machine alone")
	f.BoolVar(&s.showPrivate, "show-private", false, "also print values that depend on the private data, each line marked")
	f.BoolVar(&s.nonPrivate, "non-private", false, "no clipping and no noise: a baseline with ε = ∞")
	f.BoolVar(&s.dryRun, "dry-run", false, "describe the run, what it will cost and how long it may take, and spend nothing")
	f.BoolVar(&s.printConfig, "print-config", false, "print every setting as a configuration file and stop")

	complete(cmd, "sampling", []string{"poisson", "fixed", "shuffle"})
	complete(cmd, "clipping", clippings)
	complete(cmd, "optimizer", optim.Kinds())
}

// placeFlags are those that say where programs run.
func (s *settings) placeFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.device, "device", "auto", "auto, cpu, gorgonia or cuda:N")
	f.StringVar(&s.precision, "precision", "fp32", "products on a GPU: fp32, tf32 or bf16; norms, sums and noise are float32 always")
	f.IntVar(&s.threads, "threads", 0, "threads (default: one a processor); results do not depend on it")
	complete(cmd, "device", []string{"auto", "cpu", "gorgonia"})
	complete(cmd, "precision", []string{"fp32", "tf32", "bf16"})
}

func (s *settings) place() engine.Place {
	return engine.Place{Device: s.device, Precision: s.precision, Threads: s.threads}
}

// dataFlags are those that say how to read the data set.
func (s *settings) dataFlags(f *pflag.FlagSet) {
	f.StringVar(&s.dataDir, "data-dir", "", "where a named data set's files lie")
	f.StringVar(&s.test, "test", "", "a second file of rows to test on; it is treated as public")
	f.StringVar(&s.label, "label", "", "CSV, JSONL: the column of the classes")
	f.StringVar(&s.classes, "classes", "", "CSV, JSONL, arrays: how many classes, or their names with commas between")
	f.StringVar(&s.bounds, "bounds", "", "CSV, JSONL: public limits of numeric columns, COLUMN=LOW:HIGH,…")
	f.StringArrayVar(&s.vocabulary, "vocabulary", nil, "CSV, JSONL: public words of a column, COLUMN=WORD|WORD|…; once a column")
	f.StringVar(&s.text, "text", "", "CSV, JSONL: the column of text or indices, in place of bounds and vocabulary")
	f.StringVar(&s.tokens, "tokens", "", "how text becomes indices: bytes, words:FILE (a public vocabulary, one word a line), or a count, where it is indices already")
	f.IntVar(&s.length, "length", 0, "indices of an example, a public number: longer texts are cut, shorter ones padded")
	f.BoolVar(&s.next, "next", false, "a language model: the label of each step is the index that follows")
	f.StringSliceVar(&s.ignore, "ignore", nil, "CSV, JSONL: columns that are not read")
	f.StringVar(&s.schema, "schema", "", "a YAML file that says all of this")
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
		return wrong("--%s is empty: give a value, or leave it out", empty)
	}
	typed := maps.Clone(s.given)
	if s.given["stop-at-epsilon"] && !(s.stopAtEpsilon > 0) { // in a file 0 says that there is none
		return wrong("--stop-at-epsilon %v: a budget above 0 is needed; leave it out to train all steps", s.stopAtEpsilon)
	}
	if s.given["resume"] {
		if err := s.takeUp(); err != nil {
			return err
		}
	}
	if s.config != "" {
		if err := s.readConfig(cmd); err != nil {
			return err
		}
	}
	if s.preset != "" {
		p, err := models.FindPreset(s.preset)
		if err != nil {
			return asWrong(err)
		}
		for _, f := range p.Flags {
			if s.overruled(f.Name) {
				continue
			}
			if err := cmd.Flags().Set(f.Name, f.Value); err != nil {
				return fmt.Errorf("preset %s: %w", p.Name, err)
			}
			s.given[f.Name] = true
		}
	}
	for _, pair := range alternatives {
		if s.given[pair[0]] && s.given[pair[1]] {
			return wrong("--%s and --%s were both given: one follows from the other", pair[0], pair[1])
		}
	}
	if err := s.baseline(typed); err != nil {
		return err
	}
	if err := oneOf("accountant", s.accountant, accountant.Names()); err != nil {
		return err
	}
	if err := oneOf("clipping", s.clipping, clippings); err != nil {
		return err
	}
	if err := oneOf("sampling", s.sampling, []string{"poisson", "fixed", "shuffle"}); err != nil {
		return err
	}
	if s.out == "" {
		s.out = "runs/" + time.Now().Format("2006-01-02_15-04-05.000")
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
			return wrong("--%s and --non-private were both given: without privacy nothing is clipped, noised or accounted for; leave one of them out", name)
		case typed[name]:
			return wrong("--%s was given, and %s says non-private: nothing is clipped, noised or accounted for; leave one of them out", name, s.config)
		}
	}
	return nil
}

// configFile is where a run keeps its settings, for --resume.
const configFile = "config.yaml"

// takeUp makes the settings of a run that stopped those of this one. Its noise
// stays what it was, so a new --epsilon means more lots.
func (s *settings) takeUp() error {
	for _, name := range []string{"config", "out", "preset", "noise"} {
		if s.given[name] {
			return wrong("--resume and --%s were both given: a resumed run keeps its folder, settings and noise", name)
		}
	}
	if s.dryRun {
		return wrong("--resume and --dry-run were both given: what was spent is in the ledger, and no plan; dptrain ledger epsilon %s says how much", s.resume)
	}
	s.config, s.out = filepath.Join(s.resume, configFile), s.resume
	if _, err := os.Stat(s.config); errors.Is(err, fs.ErrNotExist) {
		return wrong("--resume %s: no run to go on with is there (it has no %s)", s.resume, configFile)
	}
	if s.given["epsilon"] {
		if !(s.epsilon > 0) || math.IsInf(s.epsilon, 0) {
			return wrong("--epsilon %v: a finite budget above 0 is needed", s.epsilon)
		}
		s.extended = s.epsilon
		delete(s.given, "epsilon")
	}
	return nil
}

// keep writes the settings, with steps and noise as they were worked out, into
// the run's folder.
func (s *settings) keep(c *engine.Config) error {
	s.steps, s.noise, s.stopAtEpsilon = c.Steps, c.Noise, c.StopAtEpsilon
	s.given["steps"], s.given["noise"] = true, !c.NonPrivate
	delete(s.given, "epochs")
	delete(s.given, "epsilon")
	var b bytes.Buffer
	if s.given["seed"] {
		b.WriteString("# INSECURE: whoever has the seed below can subtract this run's noise.\n")
	}
	if err := s.print(s.cmd, &b); err != nil {
		return err
	}
	return replaceFile(filepath.Join(s.out, configFile), b.Bytes())
}

// alternatives say the same thing in two ways.
var alternatives = [][2]string{{"lot", "rate"}, {"epochs", "steps"}, {"noise", "epsilon"}}

// overruled reports whether a flag, or another way to say it, was given already.
func (s *settings) overruled(name string) bool {
	for _, pair := range alternatives {
		if name == pair[0] && s.given[pair[1]] || name == pair[1] && s.given[pair[0]] {
			return true
		}
	}
	return s.given[name]
}

func (s *settings) readConfig(cmd *cobra.Command) error {
	text, err := os.ReadFile(s.config)
	if err != nil {
		return wrong("--config: %w", err)
	}
	if err := s.configure(cmd, text); err != nil {
		return wrong("--config %s: %w", s.config, err)
	}
	return nil
}

// configure takes from a configuration file what was not given yet. Values stand
// there as they would on the command line.
func (s *settings) configure(cmd *cobra.Command, text []byte) error {
	var keys map[string]yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(text))
	if err := in.Decode(&keys); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("a key and a value on each line are needed, as in epochs: 3: %w", err)
	}
	if err := in.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one document (---): write all settings as one")
	}
	var taken []string
	for key, node := range keys {
		f := cmd.Flags().Lookup(key)
		if key == "config" || key == "help" || key == "resume" {
			return fmt.Errorf("%s has no place in a file: give --%s", key, key)
		}
		if f == nil {
			var names []string
			cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
			hint := ""
			if near := nearest.Guess(key, names); near != "" {
				hint = ": did you mean " + near + "?"
			}
			return fmt.Errorf("%s is no setting%s", key, hint)
		}
		if s.overruled(key) {
			continue
		}
		values, listed, err := scalars(&node)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if values == nil {
			continue
		}
		if list, ok := f.Value.(pflag.SliceValue); ok && listed {
			err = list.Replace(values)
		} else if len(values) != 1 {
			err = fmt.Errorf("one value is needed, not %d", len(values))
		} else {
			if err = f.Value.Set(values[0]); err != nil {
				err = notA(f, values[0])
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		taken = append(taken, key)
	}
	for _, key := range taken { // after all, so that a file can contradict itself
		s.given[key] = true
	}
	return nil
}

// scalars are the value or the list of values of a key; nil where it has none.
func scalars(node *yaml.Node) (values []string, listed bool, err error) {
	node = named(node)
	switch {
	case node.Kind == yaml.ScalarNode && node.Tag == "!!null":
		return nil, false, nil
	case node.Kind == yaml.ScalarNode:
		return []string{node.Value}, false, nil
	case node.Kind != yaml.SequenceNode:
		return nil, false, fmt.Errorf("a value or a list of values is needed")
	}
	values = []string{}
	for _, one := range node.Content {
		one = named(one)
		if one.Kind != yaml.ScalarNode || one.Tag == "!!null" {
			return nil, false, fmt.Errorf("a list of values is needed")
		}
		values = append(values, one.Value)
	}
	return values, true, nil
}

// named is what an alias stands for.
func named(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// silent are the flags whose zero is not a value but its absence.
var silent = []string{"seed", "delta", "lot", "rate", "noise", "steps", "length", "validation-split", "validation-noise", "project", "project-noise"}

// values are the settings by the names of their flags, those that a configuration
// file has to hold to repeat them.
func (s *settings) values(cmd *cobra.Command) map[string]any {
	keys := map[string]any{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "config" || f.Name == "resume" || f.Name == "out" || f.Name == "preset" || f.Name == "help" || f.Name == "print-config" || f.Name == "dry-run" || f.Name == "json" || f.Name == "quiet" {
			return
		}
		for _, pair := range alternatives {
			if f.Name == pair[0] && s.given[pair[1]] || f.Name == pair[1] && s.given[pair[0]] {
				return
			}
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			if v := list.GetSlice(); len(v) > 0 {
				keys[f.Name] = v
			}
			return
		}
		v := f.Value.String()
		switch {
		case f.Value.Type() == "string":
			if v != "" || f.DefValue != "" {
				keys[f.Name] = v
			}
		case slices.Contains(silent, f.Name) && !s.given[f.Name]:
		default:
			var typed any
			if err := yaml.Unmarshal([]byte(v), &typed); err != nil {
				typed = v
			}
			keys[f.Name] = typed
		}
	})
	return keys
}

// print writes a configuration file that repeats these settings.
func (s *settings) print(cmd *cobra.Command, w io.Writer) error {
	keys := s.values(cmd)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		line, err := yaml.Marshal(map[string]any{k: keys[k]})
		if err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}
