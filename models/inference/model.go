// Package inference computes predictions of trained models.
//
//	model, err := inference.Load("runs/mine")
//	answers, err := model.Predict([]inference.Row{{"age": 39, "sex": "Female"}})
//	fmt.Println(answers[0].Class, answers[0].Probability)
//
// A model reads rows as it read them in training: with the bounds, the vocabularies and the classes that
// its folder states.
//
// Predictions cost no additional privacy, however many are computed: a prediction is a function of the
// released weights and of a row that the caller provides. It reveals information about that row.
package inference

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/modelfile"
	"github.com/dptrain/dptrain/perexample"
)

// ErrWeights is the error for a file of weights that the run of the folder did not release.
var ErrWeights = modelfile.ErrWeights

// Model is a trained model. Its methods may be called concurrently; one prediction is computed at a time.
type Model struct {
	network Network
	device  engine.DeviceOptions
	answer  func(output []float32) (Prediction, error)

	mu        sync.Mutex
	evaluator *engine.Evaluator // nil before the first prediction
}

// Load reads the model of a run's folder, or of a folder with only its files model.json and
// model.safetensors. Where the ledger of the run is there too, it refuses weights that the ledger does not
// state, with [ErrWeights]. The model computes on the CPU.
func Load(dir string) (*Model, error) {
	file, err := modelfile.Read(dir)
	if err != nil {
		return nil, err
	}
	m, err := New(Network{Build: file.Build, Classes: file.ClassNames, Targets: file.Targets, Labels: file.Labels,
		Options: file.Options(), Input: file.Input()}, engine.DeviceOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return m, nil
}

// Network is a trained network, and how its examples are read.
type Network struct {
	Build   perexample.Build // with the trained weights
	Classes []string         // names of the classes; nil for a network of numbers
	Targets int              // numbers that the network predicts in place of a class
	Labels  []int            // shape of the labels of an example; nil for one label
	Options data.Options     // as in training; of Schema the bounds of the target are those of the answers
	Input   data.TrainedInput
}

// New returns the model of a network on a device.
func New(n Network, device engine.DeviceOptions) (*Model, error) {
	answer, err := newAnswer(n)
	return &Model{network: n, device: device, answer: answer}, err
}

// Classes returns the names of the classes; nil for a model that predicts a number.
func (m *Model) Classes() []string {
	if m.network.Targets > 0 {
		return nil
	}
	return slices.Clone(m.network.Classes)
}

// Target returns the name of the number that the model predicts; "" for a model of classes.
func (m *Model) Target() string {
	if m.network.Targets == 0 {
		return ""
	}
	return m.network.Options.Schema.Target
}

// Open makes the model ready for its first prediction, which otherwise does it.
func (m *Model) Open() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open()
}

func (m *Model) open() error {
	if m.evaluator != nil {
		return nil
	}
	evaluator, err := engine.NewEvaluator(m.network.Build, m.device)
	if err != nil {
		return err
	}
	if err := evaluator.LoadWeights(evaluator.Weights()); err != nil {
		evaluator.Close()
		return err
	}
	m.evaluator = evaluator
	return nil
}

// Close frees the model's memory and threads. A later prediction allocates them again.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.evaluator == nil {
		return nil
	}
	err := m.evaluator.Close()
	m.evaluator = nil
	return err
}

// Row is a row of a table: its values by column. A value is a number, a text, a truth value, or nil, which
// stands for a cell without a value. Columns that the model does not read are ignored.
type Row map[string]any

// Predict returns an answer for each row.
func (m *Model) Predict(rows []Row) ([]Prediction, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	var lines bytes.Buffer
	for i, row := range rows {
		line, err := json.Marshal(row)
		if err != nil {
			return nil, fmt.Errorf("row %d, counted from 0: %w; a missing number is nil", i, err)
		}
		lines.Write(append(line, '\n'))
	}
	examples, err := data.ReadUnlabeled(&lines, "rows", m.network.Options, m.network.Input)
	if err != nil {
		return nil, err
	}
	answers := make([]Prediction, 0, len(rows))
	err = m.PredictSet(examples.Set, func(_ int, p Prediction) error {
		answers = append(answers, p)
		return nil
	})
	return answers, err
}

// PredictSet passes the answer for each example of a set to a function, in order. An error of the function
// ends it. The first column of the set has the shape and the scale of the training data.
func (m *Model) PredictSet(examples data.Set, to func(example int, p Prediction) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.open(); err != nil {
		return err
	}
	return m.evaluator.Predict(m.evaluator.Weights(), examples, func(i int, output []float32) error {
		p, err := m.answer(output)
		if err != nil {
			return fmt.Errorf("example %d, counted from 0: %w", i, err)
		}
		return to(i, p)
	})
}

// MaxInput limits the bytes that ReadRows reads.
const MaxInput = 64 << 20

// ReadRows reads rows as JSON objects, one after the other, each of which may take several lines. Errors
// begin with the name.
func (m *Model) ReadRows(r io.Reader, name string) (data.Unlabeled, error) {
	limited := &io.LimitedReader{R: r, N: MaxInput + 1}
	in := json.NewDecoder(limited)
	var lines bytes.Buffer
	for n := 1; ; n++ {
		var object json.RawMessage
		err := in.Decode(&object)
		switch {
		case limited.N == 0:
			return data.Unlabeled{}, fmt.Errorf("%s has more than %d bytes: write the rows to a file, and read that", name, MaxInput)
		case errors.Is(err, io.EOF) && n == 1:
			return data.Unlabeled{}, fmt.Errorf(`%s is empty: write a JSON object with the columns, such as {"age": 39}`, name)
		case errors.Is(err, io.EOF):
			return data.ReadUnlabeled(&lines, name, m.network.Options, m.network.Input)
		case err != nil:
			return data.Unlabeled{}, fmt.Errorf("%s: object %d is not JSON: %w", name, n, err)
		}
		if err := json.Compact(&lines, object); err != nil {
			return data.Unlabeled{}, fmt.Errorf("%s: object %d: %w", name, n, err)
		}
		lines.WriteByte('\n')
	}
}

// ReadTable reads rows from an Arrow or a Parquet file.
func (m *Model) ReadTable(r io.Reader) (data.Unlabeled, error) {
	return data.ReadUnlabeledTable(r, m.network.Options, m.network.Input)
}

// ReadFile reads the examples of a file or a folder, or the test examples of a named data set, whose files
// are in dir.
func (m *Model) ReadFile(name, dir string) (data.Unlabeled, error) {
	options := m.network.Options
	options.Dir = dir
	return data.OpenUnlabeled(name, options, m.network.Input)
}
