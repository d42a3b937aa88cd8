package settings

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/defaults"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/models/pretrained"
)

// byRuleUsage ends the help of a flag whose default a rule chooses.
const byRuleUsage = "(default: by a rule, see docs/defaults.md)"

// ByRule returns the names of the flags whose values a rule chose, in the order of the report.
func (s *Flags) ByRule() []string { return s.byRule }

// RuleReasons returns for each flag of [Flags.ByRule] why it has its value, in a few words.
func (s *Flags) RuleReasons() map[string]string { return s.ruleReasons }

// defaultRules sets what the user does not set: from public numbers, by the rules of package
// defaults where they hold, and otherwise to the same value for all data.
//
// With another --clipping or another kind of --optimizer than the rule's, the update is the user's: the
// rest of it has fixed values. Every other flag replaces one value.
type defaultRules struct {
	spec    *Spec
	flags   *Flags
	example *models.DataSpec
	records int // from which lots are drawn
}

func newDefaultRules(s *Spec) *defaultRules {
	return &defaultRules{s, s.Flags, &s.Network.Example, s.Config.PublicRecordCount()}
}

// apply sets all flags that have no value. Specifications of the run's candidates keep them.
func (d *defaultRules) apply() {
	f := d.flags
	f.byRule, f.ruleReasons = nil, nil
	ruled := f.Resume == "" && len(f.Groups) == 0 && f.LocalSteps == 0 && f.Mechanism == string(engine.GaussianNoise)
	part := d.fineTunedPart()
	switch {
	case ruled && d.isTable():
		d.applyToTable()
	case ruled && d.isBag():
		d.applyToBag()
	case ruled && d.isTransformer():
		d.adopt(defaults.ForTransformer(d.facts(), d.fixed()))
	case ruled && part == pretrained.Head:
		d.adopt(defaults.ForHead(d.facts(), d.fixed()))
	case ruled && part != "" && d.example.Vocabulary > 0:
		tuned := defaults.Tuned{Whole: part == pretrained.All, Next: d.spec.Task.Schema.PredictNext}
		d.adopt(defaults.ForFineTuning(d.facts(), d.fixed(), tuned))
	case ruled && d.isPicture():
		d.applyToPictures()
	}
	d.applyFixed()
}

// isTable reports whether an example is a vector of numbers that the network reads.
func (d *defaultRules) isTable() bool {
	return len(d.example.Shape) == 1 && d.example.Vocabulary == 0 && d.spec.Directions == nil && d.flags.Init == ""
}

// isBag reports whether an example is a list of words that the network reads as a bag.
func (d *defaultRules) isBag() bool {
	name, _, _ := strings.Cut(d.flags.Model, ":")
	return d.example.Vocabulary > 0 && len(d.example.LabelShape) == 0 && (name == "" || name == "bow" || name == "embbag") && d.flags.Init == ""
}

// applyToBag sets what the rules for bags of words choose.
func (d *defaultRules) applyToBag() {
	d.chooseModel(fixedModel(*d.example, false), "for texts, which are sets of indices")
	if d.flags.Model != "bow" {
		d.adopt(defaults.ForBag(d.records, d.fixed()))
		return
	}
	d.adopt(defaults.ForBow(d.facts(), d.fixed()))
}

// isTransformer reports whether a transformer predicts a class of a text.
func (d *defaultRules) isTransformer() bool {
	e := d.example
	return e.Vocabulary > 0 && e.Classes > 0 && len(e.LabelShape) == 0 && d.flags.Model == "transformer" && d.flags.Init == ""
}

// fineTunedPart returns which part of a checkpoint a run trains to predict a class or, with adapters and biases, the
// next id; "" for other runs.
func (d *defaultRules) fineTunedPart() pretrained.Part {
	next := d.spec.Task.Schema.PredictNext
	if e := d.example; e.Classes == 0 || len(e.LabelShape) > 0 && !next {
		return ""
	}
	model, err := withAdapters(d.flags.Model, d.flags.LoRA)
	if err != nil {
		return "" // buildNetwork states it
	}
	checkpoint, err := models.Pretrained(model)
	if err != nil || checkpoint == nil {
		return ""
	}
	part := checkpoint.Tuning.Train
	if next && part != pretrained.LoRA && part != pretrained.Biases {
		return ""
	}
	return part
}

// boundedCNN is the network for pictures of 24 to 64 pixels a side. Its dense layer would have too many
// weights for larger ones.
const boundedCNN = "mnist-cnn:act=tanh"

// isPicture reports whether an example is a picture for a network for which a rule holds.
func (d *defaultRules) isPicture() bool {
	e, model := d.example, d.flags.Model
	if len(e.Shape) != 3 || min(e.Shape[1], e.Shape[2]) < 24 || max(e.Shape[1], e.Shape[2]) > 64 {
		return false
	}
	if d.spec.Directions != nil || d.flags.Init != "" {
		return false
	}
	return e.Classes > 0 && slices.Contains([]string{"", "logistic", boundedCNN, "digits-cnn"}, model)
}

// applyToPictures sets what the rule for pictures chooses.
func (d *defaultRules) applyToPictures() {
	f, fixed := d.flags, d.fixed()
	fixed.Linear, fixed.Hidden = f.Model == "logistic", f.Model != "" && f.Model != "logistic"
	chosen, linear := defaults.ForPictures(d.facts(), fixed)
	if linear {
		d.chooseModel("logistic", chosen.Why.Model)
	} else {
		d.chooseModel(boundedCNN, chosen.Why.Model)
	}
	d.adopt(chosen)
}

// applyToTable sets what the rule for tables chooses.
func (d *defaultRules) applyToTable() {
	f, e := d.flags, d.example
	name, _, _ := strings.Cut(f.Model, ":")
	fixed := d.fixed()
	fixed.Linear = name == "logistic" || name == "fourier"
	fixed.Hidden = name != "" && !fixed.Linear
	columns := e.Shape[0]
	for _, c := range d.spec.Task.Schema.InputColumns() {
		columns += c.Active() - c.Width()
	}
	if d.spec.Task.Schema.Vectors != nil {
		columns = 1 // the average of word vectors has norm 1
	}
	facts := d.facts()
	facts.Columns, facts.Weights, facts.Vectors = columns, e.Shape[0]+1, d.spec.Task.Schema.Vectors != nil
	chosen := defaults.ForTable(facts, fixed)
	switch {
	case chosen.Hidden > 0:
		d.chooseModel("mlp:"+strconv.Itoa(chosen.Hidden), chosen.Why.Model)
	case !chosen.Fourier || d.spec.Task.Schema.Vectors != nil:
		d.chooseModel("logistic", chosen.Why.Model)
	case columns < e.Shape[0]:
		d.chooseModel("fourier:columns="+strconv.Itoa(columns), chosen.Why.Model)
	default:
		d.chooseModel("fourier", chosen.Why.Model)
	}
	d.adopt(chosen)
}

// facts returns the public numbers that every rule uses.
func (d *defaultRules) facts() defaults.Facts {
	f := defaults.Facts{Records: d.records, Classes: d.example.Classes}
	f.Epsilon, f.Delta = d.budget()
	return f
}

// chooseModel sets the network, unless the user gives one.
func (d *defaultRules) chooseModel(name, why string) {
	if d.flags.Model == "" {
		d.flags.Model = name
		d.mark("model", why)
	}
}

// mark records that a rule chose the value of a flag.
func (d *defaultRules) mark(name, why string) {
	f := d.flags
	f.byRule = append(f.byRule, name)
	if f.ruleReasons == nil {
		f.ruleReasons = map[string]string{}
	}
	f.ruleReasons[name] = why
}

// adopt sets lots and update as a rule chose them.
func (d *defaultRules) adopt(chosen defaults.Settings) {
	f := d.flags
	set := func(name, why string, assign func()) {
		if !f.overridden(name) {
			assign()
			d.mark(name, why)
		}
	}
	why := chosen.Why
	set("lot", why.Lot, func() { f.Lot = chosen.Lot })
	set("steps", why.Steps, func() { f.Steps = chosen.Steps })
	if f.given["optimizer"] && !strings.HasPrefix(f.Optimizer, chosen.Optimizer) || f.Clipping != "flat" {
		return
	}
	set("clip", why.Clip, func() { f.Clip = chosen.Clip })
	set("optimizer", why.Optimizer, func() { f.Optimizer = chosen.Optimizer })
	set("lr", why.LearningRate, func() { f.LearningRate = chosen.LearningRate })
	if chosen.Average > 0 {
		set("ema", why.Average, func() { f.EMA = chosen.Average })
	}
}

// fixed returns what the user gives of the lots.
func (d *defaultRules) fixed() (fixed defaults.Fixed) {
	f, n := d.flags, d.records
	switch {
	case f.given["lot"] && f.Lot > 0 && f.Lot <= n:
		fixed.Lot = f.Lot
	case f.given["rate"] && f.Rate > 0 && f.Rate <= 1:
		fixed.Lot = max(1, int(f.Rate*float64(n)))
	}
	if f.given["steps"] {
		fixed.Steps = f.Steps
	}
	if f.given["epochs"] && f.Epochs > 0 && !math.IsInf(f.Epochs, 0) {
		fixed.Epochs = f.Epochs
	}
	if f.given["clip"] && f.Clip > 0 && !math.IsInf(f.Clip, 0) {
		fixed.Clip = f.Clip
	}
	if f.Sampling == string(sample.PolicyTruncated) {
		fixed.LargestLot = max(1, n/8)
	}
	return fixed
}

// budget returns the ε and δ for which the rules choose. Where the noise is given, ε is the default of
// --epsilon; a later check refuses values that are no budget.
func (d *defaultRules) budget() (epsilon, delta float64) {
	f := d.flags
	epsilon, delta = f.Epsilon, accountant.DefaultDelta(d.spec.Records)
	if !f.given["epsilon"] && f.StopAtEpsilon > 0 {
		epsilon = f.StopAtEpsilon
	}
	if !(epsilon > 0) || math.IsInf(epsilon, 0) {
		epsilon = 1
	}
	if f.given["delta"] && f.Delta > 0 && f.Delta < 1 {
		delta = f.Delta
	}
	return epsilon, delta
}

// The values of what no rule sets.
const (
	fixedEpochs         = 15
	fixedRate           = 0.5
	fixedRegressionRate = 0.05 // the slope of a squared error grows with the error; that of a cross-entropy is bounded
	checkpointRate      = 0.001
	checkpointClip      = 0.1
	averagingRate       = 1 // with local steps the mean of the users' changes is added to the weights
	fixedDenseModel     = "mlp:64,act=tanh"
)

// applyFixed sets what neither the user nor a rule sets.
func (d *defaultRules) applyFixed() {
	f := d.flags
	unset := func(name string) bool { return !f.overridden(name) && !slices.Contains(f.byRule, name) }
	if f.Model == "" {
		f.Model = fixedModel(*d.example, d.spec.Directions != nil)
	}
	d.spec.Network.Model = f.Model
	if unset("lot") {
		f.Lot = max(1, min(1024, d.records/40))
	}
	if unset("epochs") && unset("steps") {
		f.Epochs = fixedEpochs
	}
	// Adam, this rate and this bound are what Li et al. (2022) use for fine-tuning.
	fineTuned := strings.HasPrefix(f.Model, checkpointPrefix) && f.LocalSteps == 0
	if unset("clip") {
		f.Clip = 1
		if fineTuned {
			f.Clip = checkpointClip
		}
	}
	if unset("optimizer") {
		f.Optimizer = "momentum"
		if f.LocalSteps > 0 {
			f.Optimizer = "sgd"
		}
		if fineTuned {
			f.Optimizer = "adam"
		}
	}
	switch {
	case !unset("lr"):
	case fineTuned && strings.HasPrefix(f.Optimizer, "adam"):
		f.LearningRate = checkpointRate
	case f.LocalSteps > 0:
		f.LearningRate = averagingRate
	case d.example.Targets > 0:
		f.LearningRate = fixedRegressionRate
	default:
		f.LearningRate = fixedRate
	}
}

// fixedModel returns the network for data without a rule.
func fixedModel(e models.DataSpec, projected bool) string {
	switch {
	case projected:
		return fixedDenseModel
	case len(e.LabelShape) > 0:
		return "lstm"
	case e.Unordered:
		return "bow"
	case e.Vocabulary > 0:
		return "embbag"
	case len(e.Shape) == 3 && e.Shape[1] == 28 && e.Shape[2] == 28:
		return "digits-cnn"
	case len(e.Shape) == 3 && min(e.Shape[1], e.Shape[2]) >= 24 && max(e.Shape[1], e.Shape[2]) <= 64:
		return "mnist-cnn" // larger pictures would give its dense layer too many weights
	}
	return fixedDenseModel
}
