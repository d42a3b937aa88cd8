//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startServer serves predictions of a run and returns the server's URL. The test's end stops it by
// SIGTERM, and it must then exit with 0.
func startServer(t *testing.T, dir string) string {
	t.Helper()
	reader, writer := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run([]string{"predict", dir, "--serve", "127.0.0.1:0", "--quiet"}, nil, writer, os.Stderr)
		writer.Close()
	}()
	line := make([]byte, 200)
	n, err := reader.Read(line)
	if err != nil {
		t.Fatal("the server did not start: ", err)
	}
	t.Cleanup(func() {
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
		select {
		case code := <-ended:
			if code != 0 {
				t.Errorf("the server exited with %d", code)
			}
		case <-time.After(30 * time.Second):
			t.Error("the server did not end")
		}
	})
	return strings.TrimSpace(string(line[:n]))
}

func TestPredictServe_AnswersAsPredict(t *testing.T) {
	t.Chdir(t.TempDir())
	var rows [][]string
	var lines bytes.Buffer
	for i := range 300 {
		rows = append(rows, []string{fmt.Sprint(i % 100), []string{"Female", "Male"}[i%2], fmt.Sprint(i % 2)})
		fmt.Fprintf(&lines, "{\"age\": %d, \"sex\": %q}\n", i%100, rows[i][1])
	}
	content := columnarBytes(t, "feather", []string{"age", "sex", "label"}, rows)
	const settings = " --label label --classes 2 --bounds age=0:100 --vocabulary sex=Female|Male --model logistic --lot 50 --epochs 1 --quiet --out run"
	if _, stderr, code := runPiped(content, "train --data -"+settings); code != 0 {
		t.Fatal(stderr)
	}
	printed, stderr, code := runPiped(lines.Bytes(), "predict run --data - --format jsonl")
	if code != 0 {
		t.Fatal(stderr)
	}
	want := strings.Split(strings.TrimSpace(printed), "\n")
	url := startServer(t, "run")
	post := func(mediaType, body string) (int, map[string]any) {
		response, err := http.Post(url+"/v1/predict", mediaType, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, nil
		}
		defer response.Body.Close()
		var answer map[string]any
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
			t.Error(err)
		}
		return response.StatusCode, answer
	}
	check := func(status int, answer map[string]any) {
		t.Helper()
		predictions, _ := answer["predictions"].([]any)
		if status != 200 || len(predictions) != len(want) {
			t.Errorf("status %d, %d answers: %v", status, len(predictions), answer["detail"])
			return
		}
		for i, p := range predictions {
			var line map[string]any
			if err := json.Unmarshal([]byte(want[i]), &line); err != nil {
				t.Fatal(err)
			}
			if got := p.(map[string]any); got["class"] != line["class"] || got["probability"] != line["probability"] {
				t.Fatalf("row %d: %v, and predict prints %v", i, got, line)
			}
		}
	}
	objects := `{"rows": [` + strings.ReplaceAll(strings.TrimSpace(lines.String()), "\n", ",") + `]}`
	check(post("application/json", objects))
	check(post("application/vnd.apache.arrow.file", string(content)))

	var all sync.WaitGroup
	for i := range 24 { // at once: batches of several requests
		all.Go(func() {
			status, answer := post("application/json", strings.Split(lines.String(), "\n")[i])
			var line map[string]any
			json.Unmarshal([]byte(want[i]), &line)
			if status != 200 || answer["class"] != line["class"] || answer["probability"] != line["probability"] {
				t.Errorf("row %d: status %d, %v; predict prints %v", i, status, answer, line)
			}
		})
	}
	all.Wait()

	for _, c := range []struct {
		body, want string
		status     int
	}{
		{"", "not a JSON object", 422}, {"[]", "not a JSON object", 422}, {`{"rows": []}`, "no rows", 422},
		{"null", "", 422}, {`{"rows": [{"age": "x"}]}`, `no key "sex"`, 422}, {"ARROW1\x00\x00", "damaged", 422},
		{strings.Repeat(" ", 17<<20), "bytes", 413},
		{`{"rows": [` + strings.Repeat("{},", 10_000) + `{}]}`, "at most", 413},
	} {
		if status, answer := post("application/json", c.body); status != c.status || !strings.Contains(fmt.Sprint(answer["detail"]), c.want) {
			t.Errorf("%.20q: status %d, %v", c.body, status, answer)
		}
	}
	for path, want := range map[string]string{"/healthz": "ok", "/openapi.json": `"/v1/predict"`, "/metrics": `dptrain_predict_requests_total{status="413"} 2`} {
		response, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %q:\n%s", path, want, text)
		}
	}
	request, err := http.NewRequest("GET", url+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "example.org"
	if response, err := http.DefaultClient.Do(request); err != nil || response.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("another host is answered: %v", err)
	}
}

func TestPredictServe_RefusesAddressesOfOtherMachines(t *testing.T) {
	t.Chdir(t.TempDir())
	checkUsageError(t, "predict run --serve 0.0.0.0:8000", "--remote")
	checkUsageError(t, "predict run --serve 8000", "HOST:PORT")
	checkUsageError(t, "predict run --serve 127.0.0.1:8000 --data x.csv", "drop --data")
	checkUsageError(t, "predict run --remote", "--serve")
}
