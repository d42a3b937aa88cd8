package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/flags"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/models"
	"github.com/spf13/pflag"
)

// Flags contains the values of train's flags. Each flag is also a key of the configuration
// file.
type Flags struct {
	DataFlags
	rundir.Settings
	rundir.Weights
	rundir.LocalTraining
	rundir.Augmentation
	Device engine.DeviceOptions

	Model, Config, Out, Resume string
	MPI                        string // file of the MPI library; "": the first that is found
	RankTimeout                time.Duration
	Rank, Ranks                int    // of this process, and of the launch; no flags
	Init, Fresh, Freeze        string // starting weights
	LoRA                       string // see withAdapters

	ValidationSplit, ValidationNoise float64
	Projection                       int // number of principal directions
	ProjectionNoise                  float64
	OnBadRow                         string

	Lot, Microbatch, Steps int
	Adjacency              string // one of adjacencies; "": that of the sampling
	Population             int    // declared number of records; 0: the number of records is public
	Rate, Epochs           float64
	MaxLot                 int // largest truncated lot; 0: the default
	ConstantWork           bool
	Record, Sampling       string
	UserExamples           int

	Noise, Epsilon, Delta, StopAtEpsilon float64
	Clipping, Accountant                 string
	ProjectBudget                        string   // file of a budget that several runs draw from
	Groups                               []string // see groupFlag
	Metrics                              []string // see metricFlag
	StopWhen                             string   // see StopCondition
	NoiseSchedule                        string   // see NoiseRules
	Arithmetic                           string   // one of arithmetics; "": the device's best

	Seed                    uint64
	Split                   float64 // share of the rows that is public
	SplitSeed               uint64
	MetricsAddr             string
	MetricsRemote           bool
	ShowPrivate, NonPrivate bool
	AllowLargeDelta         bool
	PrintConfig, DryRun     bool
	set                     *pflag.FlagSet
	given                   map[string]bool // flags that have a value from any source
	linesInFile             map[string]int  // of the flags whose value is from the configuration file
	byRule                  []string        // flags whose value a rule chose: see defaultRules
	ruleReasons             map[string]string
	resumedEpsilon          float64   // the new budget of a resumed run; 0: unchanged
	saved                   savedPlan // of a resumed run
	allGroupsHaveNoise      bool      // every group of --group has noise of its own
	resolvedMetrics         []string  // Metrics with all their settings
}

var (
	samplings = []string{string(sample.PolicyPoisson), string(sample.PolicyTruncated),
		string(sample.PolicyFixed), string(sample.PolicyShuffle)}
	adjacencies        = []string{"zero-out", "add-remove", "replace-one"}
	mechanisms         = []string{string(engine.GaussianNoise), string(engine.LaplaceNoise)}
	arithmetics        = []string{string(engine.ExactArithmetic), string(engine.FloatArithmetic)}
	allocations        = []string{string(engine.Proportional), string(engine.DimensionAdjusted)}
	weightDecayTargets = []string{"all", "matrices"}
)

// Define adds the flags to a flag set, in the sections and the order of the help text.
func (s *Flags) Define(f *pflag.FlagSet) {
	s.set = f
	f.SortFlags = false
	flags.Section(f, "Data", func(f *pflag.FlagSet) {
		f.StringVar(&s.Data, "data", "digits", "data set: a name (see dptrain data), a file or a directory")
		s.DataFlags.Define(f)
		f.StringVar(&s.OnBadRow, "on-bad-row", string(data.BlankBadRows), "what happens to a private example that cannot be read: blank (it keeps its place and contributes nothing; nothing is printed) or fail (an error names it; the error depends on private data)")
		f.StringVar(&s.Crop, "crop", "", "HxW, as in 24x24: the part of each image that the network reads: at a random place in each lot, before --augment, and the middle in tests and predictions")
		f.StringVar(&s.Augment, "augment", "", "change images at random, differently in every lot: flip, shift:PIXELS, or both, separated by a comma")
		f.IntVar(&s.Views, "views", 1, "with --crop or --augment: random views of each image whose gradients are averaged before clipping; more views cost time, not privacy")
	})
	flags.Section(f, "Network", func(f *pflag.FlagSet) {
		f.StringVar(&s.Model, "model", "", "network, NAME[:ARGS] (see dptrain models) "+byRuleUsage)
		f.StringVar(&s.LoRA, "lora", "", "with --model hf:DIR: train low-rank adapters, r=RANK,alpha=ALPHA,targets=NAME|NAME[,last=BLOCKS][,rank-stabilised], as in r=8,alpha=16,targets=query|value, and the head; targets=all-linear are all dense layers of the blocks")
		f.StringVar(&s.Init, "init", "", "starting weights: a safetensors file in dptrain's or PyTorch's layout, a folder of dptrain serve, or the file of its GET /v1/models/NAME")
		f.StringVar(&s.Freeze, "freeze", "", "with --init: LAYER,… that keep the file's weights; the other layers are trained")
		f.StringVar(&s.Fresh, "fresh", "", "with --init: LAYER,… that start with random weights, such as a head for other classes; their weights in the file are ignored")
	})
	flags.Section(f, "Privacy", func(f *pflag.FlagSet) {
		f.Float64Var(&s.Epsilon, "epsilon", 2, "privacy budget: the noise is calibrated so that all steps together cost this ε (for lots of a fixed size, the ε that is proven for any data); replaces --noise")
		f.Float64Var(&s.Noise, "noise", 0, "noise multiplier: standard deviation of the noise divided by the sensitivity")
		f.StringVar(&s.NoiseSchedule, "noise-schedule", "", usage("noise-schedule"))
		f.Float64Var(&s.Delta, "delta", 0, "δ (default: the largest power of ten that is at most 1/(10·N), where N is the number of records or --population)")
		f.BoolVar(&s.AllowLargeDelta, "allow-large-delta", false, "accept a δ of at least one over the number of records, although publishing one record in full satisfies such a guarantee")
		f.Float64Var(&s.StopAtEpsilon, "stop-at-epsilon", 0, "stop before the lot that would exceed this ε")
		f.StringVar(&s.ProjectBudget, "budget", "", "file of a project budget, made by dptrain budget open, that the run draws from before it releases anything; δ is then by default the part of the file's δ that --epsilon is of its ε")
		f.StringVar(&s.Accountant, "accountant", accountant.Default, "privacy accountant: "+flags.Alternatives(accountant.Names()))
		f.StringVar(&s.Record, "record", "example", "unit of privacy: example, microbatch:K or user:COLUMN")
		f.IntVar(&s.UserExamples, "user-examples", 16, "largest number of examples that a user contributes; this number is public, and memory and work follow from it for every user")
		f.IntVar(&s.Population, "population", 0, usage("population"))
		f.StringVar(&s.Adjacency, "adjacency", "", usage("adjacency"))
		f.StringVar(&s.Mechanism, "mechanism", string(engine.GaussianNoise), usage("mechanism"))
		f.StringVar(&s.Arithmetic, "arithmetic", "", "how contributions are added and noised: exact (integers and correctly rounded noise; the guarantee holds for the released bits) or float (the guarantee is proved over the reals) (default: exact)")
		f.Uint64Var(&s.Seed, "seed", 0, "repeat the same noise and lots; the run is then insecure and marked so everywhere")
		f.BoolVar(&s.NonPrivate, "non-private", false, "no clipping and no noise: a baseline with ε = ∞")
	})
	flags.Section(f, "Lots", func(f *pflag.FlagSet) {
		f.IntVar(&s.Lot, "lot", 0, "records in a lot; with Poisson sampling the expected number "+byRuleUsage)
		f.Float64Var(&s.Rate, "rate", 0, "sampling probability of each record; replaces --lot")
		f.Float64Var(&s.Epochs, "epochs", 0, "average number of passes over the data "+byRuleUsage)
		f.IntVar(&s.Steps, "steps", 0, "number of lots; replaces --epochs")
		f.Var((*countOrAuto)(&s.Microbatch), "microbatch", "records computed together: a number, or auto")
		f.StringVar(&s.Sampling, "sampling", "poisson", "how lots are sampled: "+flags.Alternatives(samplings))
		f.IntVar(&s.MaxLot, "max-lot", 0, usage("max-lot"))
		f.BoolVar(&s.ConstantWork, "constant-work", false, "with --sampling truncated: pad each lot to --max-lot, so that every lot is computed with the same shapes; costs time")
	})
	flags.Section(f, "Clipping and groups", func(f *pflag.FlagSet) {
		f.Float64Var(&s.Clip, "clip", 0, "bound on the norm of a record's gradient "+byRuleUsage+"; with --clipping joint on that of the scaled gradient (default then: the root of the number of parameters, with which the first steps are as long as those of flat clipping with 1)")
		f.StringVar(&s.Clipping, "clipping", "flat", flags.Alternatives(clippings)+"; per-layer divides --clip equally among the parameters, per-layer-size by the root of their share of the weights")
		f.StringArrayVar(&s.Groups, "group", nil, usage("group"))
		f.StringVar(&s.Allocation, "allocation", "proportional", "how noise is divided among groups: "+flags.Alternatives(allocations))
	})
	flags.Section(f, "Other releases and early stops", func(f *pflag.FlagSet) {
		f.StringArrayVar(&s.Metrics, "metric", nil, usage("metric"))
		f.StringVar(&s.StopWhen, "stop-when", "", usage("stop-when"))
		f.Float64Var(&s.Split, "split", 0, "share of the rows that you declare public: these rows, drawn at random, are the test data and are not trained on; no guarantee covers them, and all results on them are printed")
		f.Uint64Var(&s.SplitSeed, "split-seed", 0, "draw the same rows for --split again (default: a random number, which config.yaml keeps)")
		f.Float64Var(&s.ValidationSplit, "validation-split", 0, "share of the private records to hold out, chosen by a hash; their accuracy, or the mean absolute error of a --target, is released once, with noise, and its cost is part of ε")
		f.Float64Var(&s.ValidationNoise, "validation-noise", 0, "standard deviation of the noise on the count of correct predictions or, for a --target, on the sum of errors in widths of its bounds (default: alone it costs a twentieth of the budget)")
		f.IntVar(&s.Projection, "project", 0, "project the features onto this many principal directions; the directions are released once, with noise, before the first lot, and their cost is part of ε")
		f.Float64Var(&s.ProjectionNoise, "project-noise", 0, "standard deviation of the noise on the sum of second moments from which the directions are computed; each record contributes a matrix of norm 1 (default: alone it costs a quarter of the budget)")
	})
	flags.Section(f, "Clients and weighted records", func(f *pflag.FlagSet) {
		f.IntVar(&s.LocalSteps, "local-steps", 0, usage("local-steps"))
		f.Float64Var(&s.LocalRate, "local-lr", 0.1, "with --local-steps: learning rate of a user's steps")
		f.IntVar(&s.LocalBatch, "local-batch", 0, "with --local-steps: examples in a user's step, which is public; a user with fewer examples uses all of them in each step (default: --user-examples, at most 64)")
		f.StringVar(&s.Weight, "weight", "", usage("weight"))
		f.Float64Var(&s.WeightCap, "weight-cap", 1, "largest weight, which is public: larger weights count as this one")
		f.Float64Var(&s.WeightMean, "weight-mean", 0, "public estimate of the mean weight M of a record, by which the sum is divided: the denominator is the expected lot times M (default: --weight-cap)")
		f.Float64Var(&s.WeightMinMean, "weight-min-mean", 0, usage("weight-min-mean"))
	})
	flags.Section(f, "Optimization", func(f *pflag.FlagSet) {
		f.StringVar(&s.Optimizer, "optimizer", "", strings.Join(optim.Names(), ", ")+" "+byRuleUsage+"; "+usage("optimizer"))
		f.Float64Var(&s.LearningRate, "lr", 0, "learning rate "+byRuleUsage)
		f.StringVar(&s.LearningRateOf, "lr-of", "", "LAYER=FACTOR,…: multiply the learning rate of these layers; --dry-run lists the layers")
		f.StringVar(&s.WeightDecayOf, "decay-of", "all", "parameters that the optimizer's weight-decay shrinks: all, or matrices, which excludes parameters with one dimension (biases, gains and shifts)")
		f.StringVar(&s.Schedule, "schedule", "constant", "constant, linear:TO@EPOCHS, cosine, step:FACTOR@EPOCH,…, warmup:STEPS[+SHAPE]")
		f.Float64Var(&s.EMA, "ema", 0, "decay of a moving average of the weights; the run then keeps the average; 0: no average "+byRuleUsage)
	})
	flags.Section(f, "Run", func(f *pflag.FlagSet) {
		f.StringVar(&s.Preset, "preset", "", "use the settings of a published run (dptrain presets lists them, with their results)")
		f.StringVar(&s.Out, "out", "", "directory for the run's files (default runs/<time>)")
		f.StringVar(&s.Resume, "resume", "", "continue the run in this directory; --steps, --epochs or --epsilon can extend it")
		f.StringVar(&s.Config, "config", "", "YAML file with flags as keys")
		f.BoolVar(&s.DryRun, "dry-run", false, "print what the run would be, its cost and its likely duration, without training; this costs no privacy")
		f.BoolVar(&s.PrintConfig, "print-config", false, "print all settings as a configuration file and stop")
		f.BoolVar(&s.ShowPrivate, "show-private", false, "also print values that depend on the private data; each line is marked")
		f.StringVar(&s.MetricsAddr, "metrics-addr", "", "HOST:PORT that serves /metrics to Prometheus while the run lasts; :PORT listens on this machine only")
		f.BoolVar(&s.MetricsRemote, "metrics-remote", false, "permit a --metrics-addr that other machines reach: they can read the metrics, which are public values")
		DefineDeviceFlags(f, &s.Device)
		DefineMPIFlag(f, &s.MPI)
		f.DurationVar(&s.RankTimeout, "rank-timeout", 0, "how long ranks wait in a lot for one that does not respond, as in 90s or 10m; between lots ten times as long (default: five times the longest lot, at least 1m)")
	})
}

// DefineMPIFlag adds the flag that names the MPI library.
func DefineMPIFlag(f *pflag.FlagSet, library *string) {
	f.StringVar(library, "mpi", "", "file of the MPI library that connects the processes which mpirun or srun started (default: that of the mpirun in PATH, or the first that the linker finds)")
}

// DefineDeviceFlags adds the flags that select the device.
func DefineDeviceFlags(f *pflag.FlagSet, d *engine.DeviceOptions) {
	f.StringVar(&d.Name, "device", "auto", "auto, cpu, gorgonia, cuda:N or, to train, cuda:all")
	f.StringVar(&d.Precision, "precision", "fp32", "precision of products on a GPU: fp32, tf32 or bf16; norms include a bound on their errors")
	f.IntVar(&d.Threads, "threads", 0, "number of threads (default: GOMAXPROCS, one for each processor that the process may use); results do not depend on it")
}

// Choices returns the values of each flag that has a fixed set of them, for shell
// completion.
func Choices() map[string][]string {
	choices := map[string][]string{
		"sampling": samplings, "clipping": clippings, "arithmetic": arithmetics, "mechanism": mechanisms, "adjacency": adjacencies, "allocation": allocations, "decay-of": weightDecayTargets,
		"on-bad-row": data.BadRowPolicies(), "optimizer": optim.Names(), "accountant": accountant.Names(),
	}
	for _, p := range models.Presets() {
		choices["preset"] = append(choices["preset"], p.Name)
	}
	for _, m := range models.Supported() {
		choices["model"] = append(choices["model"], m.Name)
	}
	maps.Copy(choices, DeviceChoices())
	return choices
}

// DeviceChoices is [Choices] for the flags of [DefineDeviceFlags].
func DeviceChoices() map[string][]string {
	return map[string][]string{"device": {"auto", "cpu", "gorgonia"}, "precision": {"fp32", "tf32", "bf16"}}
}

// countOrAuto is a flag value: a number, or auto, which is 0.
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
		return fmt.Errorf("give a number, 1 or more, or auto")
	}
	*c = countOrAuto(n)
	return nil
}

// Given reports whether a flag has a value from the command line, the configuration file
// or a preset.
func (s *Flags) Given(name string) bool { return s.given[name] }

// OnCommandLine reports whether a flag is on the command line.
func (s *Flags) OnCommandLine(name string) bool { return s.set.Changed(name) }

// Resolve merges the command line with the configuration file and the preset, and refuses
// contradictions.
func (s *Flags) Resolve() error { return s.InFile(s.resolve()) }

func (s *Flags) resolve() error {
	s.given = map[string]bool{}
	empty := ""
	s.set.Visit(func(f *pflag.Flag) {
		s.given[f.Name] = true
		if f.Value.Type() == "string" && f.Value.String() == "" {
			empty = f.Name
		}
	})
	if empty != "" { // probably an unset variable of a script
		return exitcode.Usagef("--%s is empty: give a value, or drop the flag", empty)
	}
	for _, name := range unsetByZero {
		if f := s.set.Lookup(name); s.given[name] && f.Value.String() == "0" {
			return exitcode.Usagef("--%s 0: give a number above 0, or drop the flag", name)
		}
	}
	typed := maps.Clone(s.given)
	if s.given["resume"] {
		if err := s.resolveResume(); err != nil {
			return err
		}
	}
	if s.Config != "" {
		if err := s.readConfig(); err != nil {
			return err
		}
	}
	if err := s.readPreset(); err != nil {
		return err
	}
	if err := s.resolveLocalTraining(); err != nil {
		return err
	}
	if s.NonPrivate {
		s.Groups, s.Metrics = nil, nil
		if !typed["stop-when"] && !strings.HasPrefix(s.StopWhen, "test-") {
			s.StopWhen = "" // of a preset or a file whose metrics the baseline does not release
		}
	}
	for _, pair := range alternatives {
		if s.given[pair[0]] && s.given[pair[1]] {
			return exitcode.Usagef("--%s and --%s exclude each other: drop one of them", pair[0], pair[1])
		}
	}
	if err := s.checkBaseline(typed); err != nil {
		return err
	}
	if typed["user-examples"] && !strings.HasPrefix(s.Record, "user:") {
		return exitcode.Usagef("--user-examples %d needs --record user:COLUMN, and --record is %s: change --record, or drop --user-examples", s.UserExamples, s.Record)
	}
	for _, c := range []struct {
		flag, value string
		choices     []string
	}{{"accountant", s.Accountant, accountant.Names()}, {"clipping", s.Clipping, clippings}, {"mechanism", s.Mechanism, mechanisms},
		{"sampling", s.Sampling, samplings}, {"decay-of", s.WeightDecayOf, weightDecayTargets}, {"on-bad-row", s.OnBadRow, data.BadRowPolicies()}} {
		if err := exitcode.CheckChoice(c.flag, c.value, c.choices); err != nil {
			return err
		}
	}
	if err := s.checkAdjacency(); err != nil {
		return err
	}
	if s.given["arithmetic"] {
		if err := exitcode.CheckChoice("arithmetic", s.Arithmetic, arithmetics); err != nil {
			return err
		}
	}
	if err := s.checkProjectBudget(); err != nil {
		return err
	}
	if s.Out == "" {
		s.Out = rundir.NameByTime("runs")
	}
	return nil
}

// checkAdjacency refuses a relation between data sets that the sampling does not permit.
func (s *Flags) checkAdjacency() error {
	if s.Adjacency == "" {
		return nil
	}
	if err := exitcode.CheckChoice("adjacency", s.Adjacency, adjacencies); err != nil {
		return err
	}
	switch fixed := s.Sampling == string(sample.PolicyFixed); {
	case s.Adjacency == "replace-one":
		return nil
	case fixed:
		return exitcode.Usagef("--adjacency %s does not hold for --sampling fixed: the place of a record that is absent goes to another one; use --sampling poisson, or --adjacency replace-one", s.Adjacency)
	case s.Adjacency == "add-remove" && !s.given["population"]:
		return exitcode.Usagef("--adjacency add-remove requires --population: without it the number of records is public, because the sampling rate follows from it; declare it, or use --adjacency zero-out")
	case s.Adjacency == "zero-out" && s.given["population"]:
		return exitcode.Usagef("--adjacency zero-out and --population exclude each other: with a declared number of records the guarantee covers adding and removing a record; drop one of them")
	}
	return nil
}

// readPreset takes the values of flags that have no value yet from the preset.
func (s *Flags) readPreset() error {
	if s.Preset == "" {
		return nil
	}
	p, err := models.FindPreset(s.Preset)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	// A preset can repeat a flag, so all flags are compared with what was given before it.
	flags := slices.DeleteFunc(p.Flags, func(f models.Flag) bool { return s.overridden(f.Name) })
	for _, f := range flags {
		if err := s.set.Set(f.Name, f.Value); err != nil {
			return fmt.Errorf("preset %s: %w", p.Name, err)
		}
		s.given[f.Name] = true
	}
	return nil
}

// unsetByZero are flags whose value 0, which a file may have, stands for a default.
var unsetByZero = []string{"lot", "rate", "population", "max-lot", "stop-at-epsilon", "local-steps", "local-batch", "weight-cap", "weight-mean", "weight-min-mean"}

// alternatives are pairs of flags that set the same quantity.
var alternatives = [][2]string{{"lot", "rate"}, {"epochs", "steps"}, {"noise", "epsilon"}, {"clipping", "group"}}

// hasAlternative reports whether the alternative of a flag has a value.
func (s *Flags) hasAlternative(name string) bool {
	return slices.ContainsFunc(alternatives, func(pair [2]string) bool {
		return name == pair[0] && s.given[pair[1]] || name == pair[1] && s.given[pair[0]]
	})
}

// overridden reports whether a source with higher priority sets a flag or its alternative.
// --epsilon also overrides the limit that a run's own file stores as stop-at-epsilon.
func (s *Flags) overridden(name string) bool {
	return s.given[name] || s.hasAlternative(name) || name == "stop-at-epsilon" && s.given["epsilon"]
}

// privacyFlags have no meaning with --non-private.
var privacyFlags = []string{"adjacency", "clip", "clipping", "group", "metric", "allocation", "arithmetic", "mechanism", "noise", "epsilon", "delta", "allow-large-delta", "stop-at-epsilon", "accountant", "budget", "validation-noise", "project-noise"}

// checkBaseline refuses privacy flags on the command line of a non-private run. A preset
// or a file may contain them: --non-private trains the baseline of either.
func (s *Flags) checkBaseline(typed map[string]bool) error {
	if !s.NonPrivate {
		return nil
	}
	for _, name := range privacyFlags {
		switch {
		case typed[name] && typed["non-private"]:
			return exitcode.Usagef("--%s and --non-private exclude each other: a non-private run has no clipping, noise or accounting; drop one of them", name)
		case typed[name]:
			return exitcode.Usagef("--%s contradicts non-private in %s: a non-private run has no clipping, noise or accounting; drop one of them", name, s.Config)
		}
	}
	return nil
}
