package rundir

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/host/atomicfile"
	"github.com/dptrain/dptrain/internal/quality"
)

// Summary is run.json: everything that is public about a run that ended.
//
// Epsilon is a guarantee for every reader. A run that ended before its plan, for any reason
// other than its budget, may have ended because of what it had released, so its Epsilon is
// the cost of the whole plan ([engine.Run.PlannedEpsilon]).
type Summary struct {
	Epsilon          number.Float     `json:"epsilon"`
	PublishedEpsilon number.Float     `json:"epsilon_published,omitempty"` // lots of a fixed size: the published figure, which is not proven for any data
	Approximate      bool             `json:"approximate,omitempty"`       // Epsilon is an approximation, not a bound
	Delta            number.Float     `json:"delta"`
	Accountant       string           `json:"accountant"`
	Order            float64          `json:"order,omitempty"`
	Adjacency        ledger.Adjacency `json:"adjacency"`
	Unit             string           `json:"unit"`
	NoiseMultiplier  float64          `json:"noise_multiplier"` // of all gradient groups and adaptive counts of the first lot together
	Lots
	LostLots   int            `json:"lost_lots,omitempty"` // lots in the ledger whose work a crash lost
	Clipping   string         `json:"clipping"`
	Arithmetic string         `json:"arithmetic"` // exact or float; exact only if every release in the ledger is
	Groups     []ledger.Query `json:"groups"`
	Machine
	TestAccuracy number.Float `json:"test_accuracy"` // null without test data
	TestLoss     number.Float `json:"test_loss"`
	TestExamples int          `json:"test_examples"`
	TestLabels   int          `json:"test_labels"` // TestAccuracy is a share of them
	*RegressionMetrics
	// SchemaReport lists the columns of the public test file that leave the schema; null if no
	// file was compared.
	SchemaReport []data.SchemaFinding `json:"schema_report"`
	// PrivateSchema are released shares of the private data; nil without --metric schema.
	PrivateSchema *SchemaShares `json:"schema_private,omitempty"`
	Target        string        `json:"target,omitempty"`
	TargetBounds  *data.Bounds  `json:"target_bounds,omitempty"`
	*Validation
	*Projection
	*Augmentation
	Interrupted    bool         `json:"interrupted,omitempty"`     // the run can be resumed
	PlannedEpsilon number.Float `json:"epsilon_planned,omitempty"` // of a run that ended before its plan: Epsilon, the cost of the whole plan
	SpentEpsilon   number.Float `json:"epsilon_spent,omitempty"`   // of a run that ended before its plan: the cost of what it released
	PlannedSteps   int          `json:"steps_planned,omitempty"`   // of a run that ended before its plan
	StopWhen       string       `json:"stop_when,omitempty"`       // the condition that may end the run
	Stopped        bool         `json:"stopped,omitempty"`         // StopWhen ended the run before its plan
	// NoiseSchedule changes the noise by released metrics. Epsilon is then the budget that a Rényi filter of
	// order FilterOrder enforces, PlannedEpsilon as well, and SpentEpsilon is no guarantee.
	NoiseSchedule string  `json:"noise_schedule,omitempty"`
	FilterOrder   float64 `json:"filter_order,omitempty"`
	// OdometerEpsilon, of a run that ended before its plan, bounds the privacy loss of what it released,
	// with probability 1-δ, also if releases decided the end.
	OdometerEpsilon number.Float `json:"epsilon_odometer,omitempty"`
	Secure          bool         `json:"secure"`
	Private         bool         `json:"private"`
	LedgerHead      string       `json:"ledger_head"`
	Version         string       `json:"version"`
	Data            string       `json:"data"`
	Model           string       `json:"model"`
	Parameters      int          `json:"parameters"` // number of weights
	Note            string       `json:"note,omitempty"`
	Warnings        []string     `json:"warnings"` // reasons not to rely on the run or on its guarantee
	Out             string       `json:"out"`
	Task            string       `json:"task"` // a task name of the Hugging Face Hub
	Settings
	ByRule []string `json:"by_rule,omitempty"` // flags whose values follow from public numbers by a rule
	// RuleReasons say for each of ByRule why it has its value.
	RuleReasons     map[string]string `json:"by_rule_reasons,omitempty"`
	StartingWeights string            `json:"init,omitempty"`   // name of the file
	FrozenLayers    string            `json:"freeze,omitempty"` // layers that keep their starting weights
	Platform        string            `json:"platform"`
	Finished        time.Time         `json:"finished"`
	*quality.Measures
	TestData       string       `json:"test_data,omitempty"` // name of a file of its own with the test data
	Split          *data.Split  `json:"split,omitempty"`     // of --split: the test data are rows of the file
	Generated      bool         `json:"generated,omitempty"` // the program drew the data, which contain no person's data
	Columns        []Column     `json:"columns,omitempty"`
	OmittedColumns int          `json:"columns_omitted,omitempty"`
	Linear         *LinearModel `json:"linear,omitempty"`
	ClassNames     []string     `json:"class_names,omitempty"`
	Confusion      [][]int      `json:"confusion,omitempty"` // counts of predicted classes for each true class of the test data
}

// Lots are how lots were sampled and how many ran.
type Lots struct {
	Sampling     string  `json:"sampling"`
	Rate         float64 `json:"rate"`
	Records      int     `json:"records"`
	ExpectedLot  float64 `json:"expected_lot"`
	MaxLot       int     `json:"max_lot,omitempty"` // of truncated lots
	ConstantWork bool    `json:"constant_work,omitempty"`
	Weights
	LocalTraining
	Microbatch int `json:"microbatch"`
	Steps      int `json:"steps"`
}

// Weights are how records are weighted. The flags have the same fields.
type Weights struct {
	Weight        string  `json:"weight,omitempty"`          // column with the weights of records
	WeightCap     float64 `json:"weight_cap,omitempty"`      // the largest weight
	WeightMean    float64 `json:"weight_mean,omitempty"`     // of a fixed denominator; flag 0: the cap
	WeightMinMean float64 `json:"weight_min_mean,omitempty"` // of a denominator that depends on the lot; 0: it is fixed
}

// LocalTraining is what a user contributes in place of a gradient. The flags have the same fields.
type LocalTraining struct {
	LocalSteps int     `json:"local_steps,omitempty"` // of each user in a lot; 0: users contribute gradients
	LocalRate  float64 `json:"local_lr,omitempty"`
	LocalBatch int     `json:"local_batch,omitempty"` // examples in a local step
}

// Machine is what computed the run, and how fast.
type Machine struct {
	Device    string `json:"device"`
	Threads   int    `json:"threads"`
	Ranks     int    `json:"ranks,omitempty"`     // processes that computed each lot together
	Transport string `json:"transport,omitempty"` // what connected them: mpi, nccl or mpi+nccl
	// RankSeconds is how long each rank computed its records, without waiting for the others; two significant digits.
	RankSeconds    []float64 `json:"rank_seconds,omitempty"`
	ResumedAt      int       `json:"resumed_at,omitempty"` // lots before this command; Seconds and ExamplesPerSec exclude them
	Seconds        float64   `json:"seconds"`              // of the whole command
	ExamplesPerSec float64   `json:"examples_per_second"`  // examples of the expected lots, without the time of evaluation; 0 if no lot ran
}

// Settings are values of flags as they are given: the flags, run.json and the report have the same fields.
// A setting that has no effect in a run is empty in its summary.
type Settings struct {
	Clip           float64 `json:"clip,omitempty"`
	Allocation     string  `json:"allocation,omitempty"`
	Mechanism      string  `json:"mechanism,omitempty"` // laplace; empty for gaussian
	Optimizer      string  `json:"optimizer"`
	WeightDecayOf  string  `json:"decay_of,omitempty"` // empty if all parameters decay
	LearningRate   float64 `json:"learning_rate"`
	LearningRateOf string  `json:"lr_of,omitempty"` // LAYER=FACTOR,…
	Schedule       string  `json:"schedule"`
	EMA            float64 `json:"ema,omitempty"`
	Preset         string  `json:"preset,omitempty"`
}

// Write writes run.json.
func (s *Summary) Write(dir string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, SummaryFile), append(text, '\n'))
}

// MaxConfusionClasses is the largest number of classes for which run.json contains a confusion
// matrix, calibration and ROC curves.
const MaxConfusionClasses = 200

// SetTestResult records an evaluation on the test data.
func (s *Summary) SetTestResult(e *engine.Evaluation, task *data.Task) {
	s.TestLoss, s.TestExamples, s.TestLabels = finite(e.Loss), e.Examples, e.Labels
	if e.Labels > 0 {
		s.TestAccuracy = number.Float(e.Accuracy)
	}
	s.RegressionMetrics = NewRegressionMetrics(e)
	if len(e.Confusion) <= MaxConfusionClasses && !task.Schema.PredictNext && task.Schema.Masked == 0 {
		s.Confusion, s.ClassNames = e.Confusion, task.ClassNames
	}
}

// RegressionMetrics measures the errors of a regression on public test data, as run.json
// and metrics.jsonl contain them.
type RegressionMetrics struct {
	RMSE number.Float `json:"test_rmse"`
	MAE  number.Float `json:"test_mae"`
	R2   number.Float `json:"test_r2"` // null if the targets do not vary
}

// NewRegressionMetrics returns the metrics of an evaluation; nil if there is none, or if
// the network does not predict numbers.
func NewRegressionMetrics(e *engine.Evaluation) *RegressionMetrics {
	if e == nil || e.Targets == 0 {
		return nil
	}
	return &RegressionMetrics{finite(e.RMSE), finite(e.MAE), finite(e.R2)}
}

// Print writes rows of a table. suffix follows the RMSE.
func (m *RegressionMetrics) Print(w io.Writer, suffix string) {
	fmt.Fprintf(w, "RMSE\t%s%s\nMAE\t%s\n", number.Short(float64(m.RMSE)), suffix, number.Short(float64(m.MAE)))
	if r := float64(m.R2); !math.IsNaN(r) {
		fmt.Fprintf(w, "R²\t%s\n", number.Short(r))
	}
}

// finite replaces infinity by NaN, which JSON represents as null.
func finite(x float64) number.Float {
	if math.IsInf(x, 0) {
		return number.Float(math.NaN())
	}
	return number.Float(x)
}

// Read reads run.json of a directory.
func Read(dir string) (*Summary, error) {
	s := &Summary{}
	path := filepath.Join(dir, SummaryFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, s); err != nil {
		return &Summary{}, fmt.Errorf("%s is not a valid run summary: %w; write it again with dptrain train --resume %s", path, err, dir)
	}
	return s, nil
}

// Validation is the released accuracy, or error, on private records that were held out.
type Validation struct {
	Accuracy  *float64 `json:"validation_accuracy,omitempty"`
	MAE       *float64 `json:"validation_mae,omitempty"` // of a regression, in units of the target
	Deviation float64  `json:"validation_deviation"`     // standard deviation of the noise in Accuracy or MAE
	Noise     float64  `json:"validation_noise"`         // σ on the statistic that is released
	Records   int      `json:"validation_records"`
}

// Print writes a row of a table. target is the name of a regression's target, or "".
func (v *Validation) Print(w io.Writer, target string) {
	if target != "" {
		fmt.Fprintf(w, "validation\tMAE %s of %s, with predictions clipped to its bounds,", WithNoise(*v.MAE, v.Deviation), target)
	} else {
		fmt.Fprintf(w, "validation\t%s", PercentWithNoise(*v.Accuracy, v.Deviation))
	}
	if v.Deviation == 0 {
		fmt.Fprintf(w, " on %s held out\n", number.Plural(v.Records, "record"))
		return
	}
	fmt.Fprintf(w, " on %s held out; ε includes its cost\n", number.Plural(v.Records, "private record"))
}

// WithNoise formats a released number with the standard deviation of its noise.
func WithNoise(x, deviation float64) string {
	if deviation == 0 {
		return number.Short(x)
	}
	return fmt.Sprintf("%s ± %.2g (noise)", number.Short(x), deviation)
}

// PercentWithNoise is [WithNoise] for a share.
func PercentWithNoise(x, deviation float64) string {
	if deviation == 0 {
		return fmt.Sprintf("%.2f%%", 100*x)
	}
	return fmt.Sprintf("%.2f%% ± %.2f%% (noise)", 100*x, 100*deviation)
}

// Projection describes a projection of the features.
type Projection struct {
	Directions int     `json:"projection"`
	Noise      float64 `json:"projection_noise"` // σ on the sum of the records' matrices, each of norm 1; 0 without privacy
}

// Print writes a row of a table.
func (p *Projection) Print(w io.Writer) {
	fmt.Fprintf(w, "projection\tonto %s", number.Plural(p.Directions, "principal direction"))
	if p.Noise != 0 {
		fmt.Fprintf(w, ", released with a noise multiplier of %.4g; ε includes their cost", p.Noise)
	}
	fmt.Fprintln(w)
}

// Augmentation describes the random views of images. The flags have the same fields.
type Augmentation struct {
	Crop    string `json:"crop,omitempty"`
	Augment string `json:"augment,omitempty"`
	Views   int    `json:"views"`
}

// Describe says how images are changed.
func (a *Augmentation) Describe() string {
	switch {
	case a.Crop == "":
		return "changed by " + a.Augment
	case a.Augment == "":
		return "random parts of " + a.Crop + " pixels"
	}
	return fmt.Sprintf("random parts of %s pixels, changed by %s", a.Crop, a.Augment)
}

// Print writes a row of a table.
func (a *Augmentation) Print(w io.Writer) {
	fmt.Fprintf(w, "views\t%d of each image, %s\n", a.Views, a.Describe())
}
