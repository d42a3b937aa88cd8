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
	"github.com/dptrain/dptrain/models/inference"
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
	model, name, err := openModel(dir, set)
	if err != nil {
		return err
	}
	defer model.Close()
	listener, err := net.Listen("tcp", set.serve)
	if err != nil {
		return exitcode.Usagef("--serve %s: %w; choose another address", set.serve, err)
	}
	served := modelserver.Model{
		JSON:  func(r io.Reader) (data.Unlabeled, error) { return model.ReadRows(r, "the request") },
		Arrow: model.ReadTable,
		Predict: func(rows data.Set, to func(int, any) error) error {
			return model.PredictSet(rows, func(i int, p inference.Prediction) error { return to(i, prediction.Answer(model, p)) })
		},
	}
	ctx, stop := untilInterrupted()
	defer stop()
	url := "http://" + listener.Addr().String()
	if err := term.Print(map[string]any{"listening": url, "model": name}, url, func(w io.Writer) { fmt.Fprintf(w, "listening on %s\n", url) }); err != nil {
		return err
	}
	return exitcode.AsFailure(modelserver.New(served, loopback.IsListener(listener)).Serve(ctx, listener, 10*time.Second))
}
