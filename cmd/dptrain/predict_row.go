package main

import (
	"fmt"
	"io"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/prediction"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/models/inference"
)

// printAnswer predicts one example and prints the answer.
func printAnswer(term *terminal.Terminal, model *inference.Model, example data.Set) error {
	format, err := prediction.NewFormat(model, false)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	var answer inference.Prediction
	err = model.PredictSet(example, func(_ int, p inference.Prediction) error {
		answer = p
		return nil
	})
	if err != nil {
		return exitcode.AsUsage(err)
	}
	cells := format.AppendCells(nil, answer)
	return term.Print(prediction.Answer(model, answer), fmt.Sprint(cells[0]), func(w io.Writer) {
		for i, name := range format.Columns {
			fmt.Fprintf(w, "%s\t%v\n", name, cells[i])
		}
	})
}
