package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/prediction"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
)

// maxInput limits the bytes that predict reads from standard input.
const maxInput = 64 << 20

// readRows reads JSON objects, which may take several lines each.
func readRows(r io.Reader, o data.Options, trained data.TrainedInput) (data.Unlabeled, error) {
	const name = "standard input"
	limited := &io.LimitedReader{R: r, N: maxInput + 1}
	in := json.NewDecoder(limited)
	var lines bytes.Buffer
	for n := 1; ; n++ {
		var object json.RawMessage
		err := in.Decode(&object)
		switch {
		case limited.N == 0:
			return data.Unlabeled{}, fmt.Errorf("%s has more than %d bytes: write the rows to a file and name it with --data", name, maxInput)
		case errors.Is(err, io.EOF) && n == 1:
			return data.Unlabeled{}, fmt.Errorf(`%s is empty: pipe in a JSON object with the columns, such as {"age": 39}, or name a file with --data`, name)
		case errors.Is(err, io.EOF):
			return data.ReadUnlabeled(&lines, name, o, trained)
		case err != nil:
			return data.Unlabeled{}, fmt.Errorf("%s: object %d is not JSON: %w", name, n, err)
		}
		if err := json.Compact(&lines, object); err != nil {
			return data.Unlabeled{}, fmt.Errorf("%s: object %d: %w", name, n, err)
		}
		lines.WriteByte('\n')
	}
}

// printAnswer predicts one example and prints the answer.
func printAnswer(term *terminal.Terminal, evaluator *engine.Evaluator, example data.Set, m rundir.Manifest) error {
	format, err := prediction.NewFormat(m, m.Targets == 0)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	var cells []any
	err = evaluator.Predict(evaluator.Weights(), example, func(_ int, output []float32) (err error) {
		cells, err = format.AppendCells(nil, output)
		return err
	})
	if err != nil {
		return exitcode.AsUsage(err)
	}
	return term.Print(answerOf(format, cells, m), fmt.Sprint(cells[0]), func(w io.Writer) {
		for i, name := range format.Columns[:min(2, len(format.Columns))] {
			fmt.Fprintf(w, "%s\t%v\n", name, cells[i])
		}
	})
}

// answerOf returns the answer for one example as an object.
func answerOf(format prediction.Format, cells []any, m rundir.Manifest) map[string]any {
	answer := map[string]any{}
	for i, name := range format.Columns {
		if class, isProbability := strings.CutPrefix(name, prediction.ProbabilityPrefix); isProbability && m.Targets == 0 {
			probabilities, _ := answer["probabilities"].(map[string]any)
			if probabilities == nil {
				probabilities = map[string]any{}
				answer["probabilities"] = probabilities
			}
			probabilities[class] = cells[i]
		} else {
			answer[name] = cells[i]
		}
	}
	return answer
}
