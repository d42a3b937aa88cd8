package client_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/engine/drawdiscard/client"
	"github.com/dptrain/dptrain/engine/drawdiscard/server"
)

// A client contributes twice to a server in the same process; its budget covers no third time.
func Example() {
	hosted, err := server.New(server.Options{}, []server.Description{{
		Name: "clicks", Spec: drawdiscard.Spec{Model: "logistic", Inputs: drawdiscard.Shape{2}, Classes: 2}, Instances: 20,
		Settings: drawdiscard.Settings{Distribution: drawdiscard.Laplace, Level: drawdiscard.ModelLevel, Epsilon: 1, Clip: 1, LearningRate: 0.1},
	}})
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go hosted.Serve(listener, "", "")
	defer hosted.Shutdown(context.Background())

	ctx := context.Background()
	remote, err := client.New("http://"+listener.Addr().String(), client.Options{})
	if err != nil {
		panic(err)
	}
	defer remote.Close()
	model, err := remote.FindModel(ctx, "clicks")
	if err != nil {
		panic(err)
	}
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	account, err := client.OpenAccount(filepath.Join(folder, "ledger.jsonl"), drawdiscard.ModelLevel, client.Budget{Epsilon: 2})
	if err != nil {
		panic(err)
	}
	defer account.Close()
	records := drawdiscard.Records{Features: []float32{0.2, 0.9}, Labels: []float32{1}}
	noise := drawdiscard.Settings{Distribution: drawdiscard.Laplace, Level: drawdiscard.ModelLevel, Epsilon: 1}
	contributor, err := client.NewContributor(remote, model, noise, records, account)
	if err != nil {
		panic(err)
	}
	defer contributor.Close()
	for range 3 {
		cost, err := contributor.Contribute(ctx)
		fmt.Printf("ε = %.2f, refused: %v\n", cost.Epsilon, err != nil)
	}
	// Output:
	// ε = 1.00, refused: false
	// ε = 2.00, refused: false
	// ε = 3.00, refused: true
}
