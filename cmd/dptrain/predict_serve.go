package main

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/modelserver"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/prediction"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/host/loopback"
)

// servePredictions answers predictions of a model over HTTP until a signal ends it.
func servePredictions(term *terminal.Terminal, dir string, set *predictFlags) error {
	if set.Data != "" || set.Out != "" {
		return exitcode.Usagef("--serve reads rows from requests and answers them; drop --data and --out")
	}
	host, _, err := net.SplitHostPort(set.serve)
	if err != nil {
		return exitcode.Usagef("--serve %q: give HOST:PORT, such as 127.0.0.1:8000", set.serve)
	}
	if !loopback.IsHost(host) && !set.remote {
		return exitcode.Usagef("--serve %s is reachable by other machines: listen on 127.0.0.1, or add --remote behind a proxy with TLS and authentication", set.serve)
	}
	served, closeModel, err := newServedModel(dir, set)
	if err != nil {
		return err
	}
	defer closeModel()
	listener, err := net.Listen("tcp", set.serve)
	if err != nil {
		return exitcode.Usagef("--serve %s: %w; choose another address", set.serve, err)
	}
	ctx, stop := untilInterrupted()
	defer stop()
	url := "http://" + listener.Addr().String()
	if err := term.Print(map[string]any{"listening": url, "model": served.Name}, url, func(w io.Writer) { fmt.Fprintf(w, "listening on %s\n", url) }); err != nil {
		return err
	}
	return exitcode.AsFailure(modelserver.New(*served, loopback.IsListener(listener)).Serve(ctx, listener, 10*time.Second))
}

// newServedModel opens a model for a server.
func newServedModel(dir string, set *predictFlags) (served *modelserver.Model, closeModel func() error, err error) {
	model, err := readModel(dir, set.Schema)
	if err != nil {
		return nil, nil, err
	}
	format, err := prediction.NewFormat(model.Manifest, model.Targets == 0)
	if err != nil {
		return nil, nil, exitcode.Usagef("%s: %w", dir, err)
	}
	options := data.Options{Standardize: model.Standardize, Schema: model.Schema}
	if err := set.locateVectors(&options.Schema); err != nil {
		return nil, nil, exitcode.AsUsage(err)
	}
	trained := data.TrainedInput{Name: model.Data, Shape: model.Shape, ElementType: model.Elements}
	evaluator, err := openEvaluator(model.Build, set.Device)
	if err != nil {
		return nil, nil, err
	}
	var cells []any
	return &modelserver.Model{
		Name:  model.Model,
		JSON:  func(r io.Reader) (data.Unlabeled, error) { return readRows(r, options, trained) },
		Arrow: func(r io.Reader) (data.Unlabeled, error) { return data.ReadUnlabeledTable(r, options, trained) },
		Predict: func(rows data.Set, to func(int, any) error) error {
			return evaluator.Predict(evaluator.Weights(), rows, func(i int, output []float32) (err error) {
				if cells, err = format.AppendCells(cells[:0], output); err != nil {
					return err
				}
				return to(i, answerOf(format, cells, model.Manifest))
			})
		},
	}, evaluator.Close, nil
}
