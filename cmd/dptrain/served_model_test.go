package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/engine/drawdiscard/server"
)

const servedSchema = `label: clicked
classes: [no, yes]
bounds: {age: [0, 120], visits: [0, 50]}
inputs: [age, visits]
`

const servedRows = "age,visits,clicked\n20,3,no\n44,40,yes\n70,1,no\n93,45,yes\n"

// serveFolder writes the folder of a server with one model, and the file of its GET request.
func serveFolder(t *testing.T, d server.Description) {
	t.Helper()
	s, err := server.New(server.Options{Folder: "served"}, []server.Description{d})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- s.Serve(l, "", "") }()
	response, err := http.Get("http://" + l.Addr().String() + "/v1/models/" + d.Name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("averaged.safetensors", file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
}

func clickModel() server.Description {
	return server.Description{
		Name: "clicks", Spec: drawdiscard.Spec{Model: "logistic", Inputs: drawdiscard.Shape{2}, Classes: 2}, Instances: 3,
		Settings: drawdiscard.Settings{Distribution: drawdiscard.Laplace, Level: drawdiscard.ModelLevel, Epsilon: 8, Clip: 1, LearningRate: 1},
	}
}

// predict, eval, export and --init read the folder of a server, the folder of its model and the file of
// GET /v1/models/NAME, all with the same result.
func TestServedModel_IsReadByCommands(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"columns.yaml": servedSchema, "rows.csv": servedRows, "new.csv": "visits,age\n3,20\n40,44\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	serveFolder(t, clickModel())
	var answers, losses []any
	for _, path := range []string{"served", filepath.Join("served", "clicks"), "averaged.safetensors"} {
		answers = append(answers, runText(t, "predict "+path+" --data new.csv --schema columns.yaml"))
		losses = append(losses, runJSON(t, "eval "+path+" --data rows.csv --schema columns.yaml")["loss"])
		if init := runJSON(t, "train --data rows.csv --schema columns.yaml --model logistic --lot 2 --steps 1 --noise 1 --delta 0.01 --dry-run --init "+path)["init"]; !strings.Contains(init.(string), "its tensors match 2 of the network's 2 parameters") {
			t.Errorf("--init %s: %v", path, init)
		}
		runJSON(t, "export "+path+" --schema columns.yaml --overwrite --out clicks.onnx")
	}
	if answers[1] != answers[0] || answers[2] != answers[0] || losses[1] != losses[0] || losses[2] != losses[0] {
		t.Errorf("predictions %q, losses %v", answers, losses)
	}
	for line, want := range map[string]string{
		"eval served": "--data is missing",
		"predict averaged.safetensors --data new.csv":                        "columns",
		"eval served --data rows.csv --schema columns.yaml --standardize":    "drop it",
		"predict rows.csv --data new.csv":                                    "contains no model",
		"eval served --data rows.csv --label clicked --classes no,yes,maybe": "bounds",
	} {
		if _, stderr, code := dptrain(line); code != exitcode.Usage || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %s", line, code, stderr)
		}
	}
}
