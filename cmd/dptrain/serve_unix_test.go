//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/engine/drawdiscard/client"
)

// serveProcess starts dptrain serve in its own process and returns its URL.
func serveProcess(t *testing.T, line string) (url string, child *exec.Cmd) {
	t.Helper()
	child = exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "DPTRAIN_LINE=serve --listen 127.0.0.1:0 "+line)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Process.Kill(); child.Wait() })
	first := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		first <- line
	}()
	select {
	case line := <-first:
		url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
		if !ok {
			t.Fatalf("serve printed %q", line)
		}
		return url, child
	case <-time.After(30 * time.Second):
		t.Fatal("serve printed nothing")
	}
	return "", nil
}

// clientFile writes a client's table and returns its flags. Accounts begin empty.
func clientFile(t *testing.T) string {
	t.Helper()
	settings := t.TempDir() // of the accounts
	t.Setenv("XDG_CONFIG_HOME", settings)
	t.Setenv("HOME", settings)
	path := filepath.Join(t.TempDir(), "mine.csv")
	if err := os.WriteFile(path, []byte("age,visits,clicked\n30,3,no\n50,20,yes\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return " --data " + path + " --label clicked --classes no,yes --bounds age=0:120,visits=0:50"
}

// updatesOf reads the number of updates from the server's list.
func updatesOf(t *testing.T, url string) float64 {
	t.Helper()
	response, err := http.Get(url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var list struct{ Models []struct{ Updates float64 } }
	text, _ := io.ReadAll(response.Body)
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return list.Models[0].Updates
}

// The tests have no spam filter: it may reject an honest return, whose noise is random.

// A server that is stopped or killed continues with all updates. Contributions end with exit code 3
// when the budget is gone.
func TestServe_ContributionsSurviveStopAndKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "served")
	line := "--model logistic --inputs 2 --classes 2 --epsilon 1 --instances 3 --false-alarms 0 --dir " + dir
	file := clientFile(t)
	updates := 0.0
	for round, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} {
		url, child := serveProcess(t, line)
		if got := updatesOf(t, url); got != updates {
			t.Errorf("round %d begins with %v updates, want %v", round, got, updates)
		}
		contribute := "contribute --epsilon 1 --total-epsilon 6 --contributions 2 --server " + url + file
		v := runJSON(t, contribute)
		updates += 2
		if spent := v["epsilon_spent"].(float64); spent > updates || spent < 0.999*updates || v["model"] != "model" || v["privacy"] != "model" {
			t.Errorf("round %d: %v", round, v)
		}
		if got := updatesOf(t, url); got != updates {
			t.Errorf("round %d ends with %v updates, want %v", round, got, updates)
		}
		if round == 2 {
			if _, stderr, code := dptrain(contribute); code != exitcode.OverBudget || !strings.Contains(stderr, "budget") {
				t.Errorf("exit %d after the budget is gone: %s", code, stderr)
			}
			if _, stderr, code := dptrain("contribute --epsilon 1 --privacy feature --server " + url + file); code != exitcode.Usage || !strings.Contains(stderr, "--privacy") {
				t.Errorf("exit %d with another level: %s", code, stderr)
			}
		}
		if err := child.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := child.Wait(); (err == nil) != (signal == syscall.SIGTERM) {
			t.Errorf("round %d ends with %v", round, err)
		}
	}
}

// A damaged folder is not served, with exit code 4 and one line that names the command that shows what
// can be saved. That command saves it, and a server continues the copy.
func TestServe_DamagedFolderIsCheckedAndSaved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "served")
	const model = "--model logistic --inputs 2 --classes 2 --epsilon 1 --instances 3 --false-alarms 0 --dir "
	url, child := serveProcess(t, model+dir)
	runJSON(t, "contribute --epsilon 1 --total-epsilon 6 --contributions 3 --server "+url+clientFile(t))
	if _, stderr, code := dptrain("serve check " + dir); code != exitcode.Usage || !strings.Contains(stderr, "in use") {
		t.Errorf("a folder in use: exit %d, %s", code, stderr)
	}
	child.Process.Kill()
	child.Wait()
	v := runJSON(t, "serve check "+dir)
	if m := v["models"].([]any)[0].(map[string]any); v["ok"] != true || m["updates"] != 3.0 || m["name"] != "model" {
		t.Errorf("%v", v)
	}
	journals, _ := filepath.Glob(filepath.Join(dir, "model", "journal-*"))
	before := readFile(t, journals[0])
	damaged := bytes.Clone(before)
	damaged[len(damaged)/2] ^= 4
	if err := os.WriteFile(journals[0], damaged, 0o644); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := dptrain("serve --listen 127.0.0.1:0 " + model + dir)
	if code != exitcode.Damaged || !strings.Contains(stderr, "dptrain serve check") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit %d, %s", code, stderr)
	}
	stdout, stderr, code := dptrain("serve check " + dir)
	if code != exitcode.Damaged || !strings.Contains(stdout, "up to update 3 can be saved, without 1 lost update") || !strings.Contains(stderr, "damaged") {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
	if stdout, _, code := dptrain("serve check --json " + dir); code != exitcode.Damaged || !strings.Contains(stdout, `"ok":false`) && !strings.Contains(stdout, `"ok": false`) {
		t.Errorf("exit %d, %s", code, stdout)
	}
	if !bytes.Equal(readFile(t, journals[0]), damaged) {
		t.Error("the journal was changed")
	}
	saved := filepath.Join(t.TempDir(), "saved")
	if v := runJSON(t, "serve check "+dir+" --save "+saved); v["saved"] != saved || v["ok"] != false {
		t.Errorf("%v", v)
	}
	checkUsageError(t, "serve check "+dir+" --save "+saved, "--save")
	url, _ = serveProcess(t, model+saved)
	if got := updatesOf(t, url); got != 3 {
		t.Errorf("the saved folder continues after update %v", got)
	}
	checkUsageError(t, "serve check", "serve check served")
	checkUsageError(t, "serve check "+t.TempDir(), "no model")
}

// A client that is killed at any moment has never returned more than its ledger states.
func TestContribute_KilledHasSpentWhatItReturned(t *testing.T) {
	kills := 8
	if testing.Short() {
		kills = 2
	}
	url, _ := serveProcess(t, "--model logistic --inputs 2 --classes 2 --epsilon 1 --false-alarms 0")
	file := clientFile(t)
	path, err := client.AccountPath(client.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	for kill := range kills {
		child, stderr := process(t, "contribute --quiet --epsilon 1 --total-epsilon 1e9 --contributions 100000 --server "+url+file)
		for before, deadline := updatesOf(t, url), time.Now().Add(time.Minute); updatesOf(t, url) == before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("no contribution arrived in a minute")
			}
		}
		time.Sleep(time.Duration(3*kill) * time.Millisecond)
		child.Process.Kill()
		child.Wait()
		h, err := ledger.Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // killed before it began
		}
		if err != nil {
			t.Fatal(err, stderr)
		}
		if updates := updatesOf(t, url); float64(h.LotCount()) < updates {
			t.Errorf("kill %d: the ledger states %d contributions, and %v arrived", kill, h.LotCount(), updates)
		}
	}
	if updatesOf(t, url) < float64(kills) {
		t.Errorf("only %v contributions arrived", updatesOf(t, url))
	}
}

// Copied, renamed and changed data of a client have the same account. Another client has another one.
func TestContribute_AccountFollowsClient(t *testing.T) {
	url, _ := serveProcess(t, "--model logistic --inputs 2 --classes 2 --epsilon 1 --false-alarms 0")
	flags := clientFile(t)
	line := "contribute --epsilon 1 --total-epsilon 2 --server " + url
	path := strings.Fields(flags)[1]
	v := runJSON(t, line+flags)
	if v["client"] != "default" || strings.HasPrefix(v["ledger"].(string), filepath.Dir(path)) {
		t.Errorf("%v", v)
	}
	renamed := filepath.Join(t.TempDir(), "other.csv")
	if err := os.WriteFile(renamed, append(readFile(t, path), "41,7,no\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	other := strings.ReplaceAll(flags, path, renamed)
	if v := runJSON(t, line+other); v["epsilon_left"].(float64) > 0.01 {
		t.Errorf("a copy of the data has a budget of its own: %v", v)
	}
	for _, f := range []string{flags, other} {
		if _, stderr, code := dptrain(line + f); code != exitcode.OverBudget {
			t.Errorf("exit %d after the budget is gone: %s", code, stderr)
		}
	}
	if v := runJSON(t, line+other+" --client bob"); v["client"] != "bob" || v["epsilon_left"].(float64) < 0.99 {
		t.Errorf("another client: %v", v)
	}
}

// Several models of a configuration file are served at once, with tokens.
func TestServe_ConfigAndTokens(t *testing.T) {
	folder := t.TempDir()
	config, tokens := filepath.Join(folder, "models.yaml"), filepath.Join(folder, "tokens")
	text := `models:
  - {name: ads, model: logistic, inputs: [2], classes: 2, false_alarms: 0, settings: {epsilon: 1}}
  - {name: digits, model: mlp:8, inputs: [1, 28, 28], classes: 10, instances: 2, false_alarms: 0, settings: {mechanism: gaussian, privacy: feature, epsilon: 2, delta: 1.0e-6, learning_rate: 0.01}}
`
	for path, text := range map[string]string{config: text, tokens: "# the tokens of this test\n0123456789abcdef0123456789abcdef\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	url, _ := serveProcess(t, "--config "+config+" --token-file "+tokens)
	if response, err := http.Get(url + "/v1/models"); err != nil || response.StatusCode != 401 {
		t.Errorf("without a token: %v %v", response, err)
	}
	v := runJSON(t, "contribute --model ads --epsilon 1 --token-file "+tokens+" --server "+url+clientFile(t))
	if v["weights"] != 3.0 || v["epsilon_left"].(float64) > 1e-5 {
		t.Errorf("%v", v)
	}
	ledger := filepath.Join(folder, "digits.jsonl")
	v = runJSON(t, "contribute --model digits --data digits --mechanism gaussian --privacy feature --epsilon 2 --delta 1e-6 --ledger "+ledger+" --token-file "+tokens+" --server "+url)
	if v["weights"] != float64(784*8+8+8*10+10) || v["privacy"] != "feature" || !(v["models_epsilon"].(float64) > 100) || v["total_level"] != "feature" {
		t.Errorf("%v", v)
	}
	counted := "contribute --model digits --data digits --mechanism gaussian --privacy feature --epsilon 2 --delta 1e-6 --total-level model --total-epsilon 1e5 --ledger " + filepath.Join(folder, "models.jsonl") + " --token-file " + tokens + " --server " + url
	if v = runJSON(t, counted); v["epsilon_spent"] != v["models_epsilon"] || v["total_level"] != "model" {
		t.Errorf("counted by whole models: %v", v)
	}
	if _, stderr, code := dptrain(strings.Replace(counted, "models.jsonl", "digits.jsonl", 1)); code != exitcode.Usage || !strings.Contains(stderr, "use the other level") {
		t.Errorf("the ledger of the other level: exit %d, %s", code, stderr)
	}
	if _, stderr, code := dptrain("contribute --epsilon 1 --token-file " + tokens + " --server " + url + clientFile(t)); code == 0 || !strings.Contains(stderr, "ads, digits") {
		t.Errorf("without --model: exit %d, %s", code, stderr)
	}
}

func TestServe_RejectsInvalid(t *testing.T) {
	folder := t.TempDir()
	bad := filepath.Join(folder, "bad.yaml")
	if err := os.WriteFile(bad, []byte("models:\n  - {name: a, modle: x}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(folder, "short")
	if err := os.WriteFile(short, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const model = "serve --model logistic --inputs 2 --classes 2 --epsilon 1 "
	for line, want := range map[string]string{
		"serve":                                           "--model",
		"serve --model logistic --inputs 2":               "--epsilon",
		model + "--listen 0.0.0.0:0":                      "reachable by other machines",
		model + "--listen 127.0.0.1":                      "HOST:PORT",
		model + "--inputs 0":                              "--inputs",
		model + "--classes 3":                             "multinomial",
		model + "--mechanism cauchy":                      "cauchy",
		model + "--mechanism gaussian":                    "δ",
		model + "--instances 0":                           "instances",
		model + "--name ../x":                             "model name",
		model + "--false-alarms 2":                        "false-alarm",
		model + "--tls-cert x":                            "--tls-key",
		model + "--token-file " + short:                   "token",
		model + "--max-rate 0":                            "above 0",
		model + "--max-share 0":                           "--max-share",
		model + "--max-share 1.5":                         "--max-share",
		model + "--config " + bad:                         "--model",
		"serve --config " + bad:                           "modle",
		"serve --config absent.yaml":                      "absent.yaml",
		"contribute":                                      "--server",
		"contribute --server http://127.0.0.1:1 --data x": "--epsilon",
		"contribute --server http://127.0.0.1:1 --data x --epsilon 1 --privacy feature --total-level model": "--total-epsilon",
		"contribute --server http://127.0.0.1:1 --data x --epsilon 1 --total-level row --total-epsilon 3":   "row",
		"contribute --server http://127.0.0.1:1 --data x --epsilon 1 --client ../x":                         "--client",
		"contribute --server http://127.0.0.1:1 --data x --epsilon 1 --client a --ledger l":                 "two accounts",
		"contribute --server http://192.0.2.1 --data x --ledger l --epsilon 1":                              "https",
		"contribute --server http://127.0.0.1:1 --data x --ledger l --epsilon 1 --delta 1e-6":               "--delta",
		"contribute --server http://127.0.0.1:1 --data x --ledger l --epsilon 1 --mechanism gaussian":       "--delta",
		"contribute --server http://127.0.0.1:1 --data x --ledger l --epsilon 1 --privacy row":              "row",
	} {
		checkUsageError(t, line, want)
	}
	if _, stderr, code := dptrain("contribute --server http://127.0.0.1:1 --epsilon 1" + clientFile(t)); code != exitcode.Failed {
		t.Errorf("no server: exit %d, %s", code, stderr)
	}
}
