package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/learn"
)

func TestLearn_WithoutModules(t *testing.T) {
	if _, err := learn.Files(); err == nil {
		t.Skip("this program contains the modules")
	}
	_, stderr, code := dptrain("learn")
	if code != exitcode.Failed || !strings.Contains(stderr, "make learn") || !strings.Contains(stderr, "--guide") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit %d, %q: one line that names --guide and `make learn` is wanted", code, stderr)
	}
	for version, want := range map[string]string{
		"v0.1.0":       "dptrain_0.1.0_guide.zip from https://github.com/dptrain/dptrain/releases/tag/v0.1.0 and",
		"0123456789ab": "dptrain_VERSION_guide.zip from a release and",
	} {
		if text := withoutGuide(version).Error(); !strings.Contains(text, want) {
			t.Errorf("%s: %q lacks %q", version, text, want)
		}
	}
}

func TestLearn_ReadsModulesOfAFile(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"accounting.wasm", "engine.wasm", "wasm_exec.js"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("content of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	archive := filepath.Join(folder, "guide.zip")
	file, err := os.Create(archive)
	if err == nil {
		err = errors.Join(learn.WriteArchive(file, folder), file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	guide := filepath.Join(t.TempDir(), "guide")
	if _, stderr, code := dptrain("learn --guide " + archive + " --out " + guide); code != 0 {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	if got := string(readFile(t, filepath.Join(guide, "engine.wasm"))); got != "content of engine.wasm" {
		t.Errorf("engine.wasm contains %q", got)
	}
	for _, wrong := range []string{filepath.Join(folder, "nowhere.zip"), filepath.Join(folder, "engine.wasm")} {
		checkUsageError(t, "learn --guide "+wrong+" --out "+filepath.Join(folder, "out"), "--guide")
	}
}

// guideTour is what the page reports of a tour through all chapters: testdata/learn/tour.js.
type guideTour struct {
	Faults      []string // errors of the console, of promises, and of the content security policy
	Violations  []string // of axe
	Axe         bool     // axe ran
	Experiments []guideExperiment
}

type guideExperiment struct {
	Chapter, Title, State, Message string
	Seconds                        float64
	Checks                         []struct {
		Command []string
		Key     string
		Value   float64
		Within  float64 // of what is drawn at random; 0: the same number
		Ledger  string
	}
	Facts []struct {
		Name  string
		Holds bool
	}
}

// Every experiment of the guide runs in Chromium and in Firefox. Its numbers are those of the command
// line, no request leaves the page, nothing is reported on the console, and axe finds no violation: in
// light and dark mode, and on a phone. It needs the modules of `make learn` and a browser.
func TestLearn_InBrowsers(t *testing.T) {
	if testing.Short() {
		t.Skip("the tour of the guide takes minutes")
	}
	archive, err := os.ReadFile(filepath.FromSlash("../../.cache/learn/learn.zip"))
	if err != nil {
		t.Skip("the guide's modules are not built: make learn")
	}
	files, err := learn.FilesOf(archive)
	if err != nil {
		t.Fatal(err)
	}
	for _, tour := range []struct {
		name, query string
		browser     func(folder, url string) *exec.Cmd
	}{
		{"chromium", "?full", chromium()},
		{"chromium, dark, phone", "?phone", chromium("--blink-settings=preferredColorScheme=0")},
		{"firefox", "", firefox},
	} {
		t.Run(tour.name, func(t *testing.T) { checkTour(t, takeTour(t, files, tour.query, tour.browser)) })
	}
}

func chromium(flags ...string) func(folder, url string) *exec.Cmd {
	return func(folder, url string) *exec.Cmd {
		for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
			if path, err := exec.LookPath(name); err == nil {
				all := append([]string{"--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
					"--disable-component-update", "--disable-sync", "--user-data-dir=" + folder, "--window-size=1300,1000", "--enable-logging=stderr"}, flags...)
				return exec.Command(path, append(all, url)...)
			}
		}
		return nil
	}
}

func firefox(folder, url string) *exec.Cmd {
	for _, name := range []string{"firefox-esr", "firefox"} {
		if path, err := exec.LookPath(name); err == nil {
			return exec.Command(path, "--headless", "--no-remote", "--profile", folder, url)
		}
	}
	return nil
}

// takeTour serves the guide with a script that visits all chapters, and returns what the script
// reports. The server is also the browser's proxy in effect: every request that it gets is known.
func takeTour(t *testing.T, files map[string][]byte, query string, browser func(folder, url string) *exec.Cmd) guideTour {
	t.Helper()
	reported := make(chan guideTour, 1)
	guide := learn.Handler(files)
	axe := readFileIfAny(os.Getenv("DPTRAIN_AXE"))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /tour.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		io.WriteString(w, string(readFile(t, "testdata/learn/tour.js")))
	})
	mux.HandleFunc("GET /axe.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		w.Write(axe)
	})
	mux.HandleFunc("POST /report", func(_ http.ResponseWriter, r *http.Request) {
		var tour guideTour
		if err := json.NewDecoder(r.Body).Decode(&tour); err != nil {
			t.Error(err)
		}
		reported <- tour
	})
	// A frame of the width of a phone.
	mux.HandleFunc("GET /phone.html", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, `<!doctype html><title>phone</title><iframe src="/?phone" width="390" height="844"></iframe>`)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			guide.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, strings.Replace(string(files["index.html"]), `<script type="module" src="app.js">`,
			`<script src="axe.js"></script><script src="tour.js"></script><script type="module" src="app.js">`, 1))
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	url := server.URL + "/" + query
	if query == "?phone" {
		url = server.URL + "/phone.html"
	}
	command := browser(t.TempDir(), url)
	if command == nil {
		t.Skip("the browser is not installed: apt-get install chromium firefox-esr")
	}
	if err := command.Start(); err != nil {
		t.Skipf("the browser does not run here: %v", err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 15*time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	defer func() {
		command.Process.Kill()
		<-ended
	}()
	select {
	case tour := <-reported:
		return tour
	case err := <-ended:
		ended <- err
		t.Skipf("the browser does not run here: %v", err)
	case <-ctx.Done():
		t.Fatal("the tour did not end within 15 minutes")
	}
	return guideTour{}
}

func readFileIfAny(path string) []byte {
	text, _ := os.ReadFile(path)
	return text
}

// guideExperiments is the number of experiments in the chapters.
const guideExperiments = 14

func checkTour(t *testing.T, tour guideTour) {
	t.Helper()
	for _, f := range append(tour.Faults, tour.Violations...) {
		t.Error(f)
	}
	if !tour.Axe {
		t.Log("axe did not run: set DPTRAIN_AXE to axe.min.js of axe-core")
	}
	if len(tour.Experiments) != guideExperiments {
		t.Errorf("%d experiments ran, %d are wanted", len(tour.Experiments), guideExperiments)
	}
	compared, answers := 0, map[string]map[string]any{}
	for _, e := range tour.Experiments {
		t.Logf("%s: %s %s in %.1f s, %d numbers compared", e.Chapter, e.Title, e.State, e.Seconds, len(e.Checks))
		if e.State != "done" {
			t.Errorf("%s: %s: %s %s", e.Chapter, e.Title, e.State, e.Message)
		}
		for _, f := range e.Facts {
			if !f.Holds {
				t.Errorf("%s: %s: it does not hold that %s", e.Chapter, e.Title, f.Name)
			}
		}
		for _, c := range e.Checks {
			line := strings.Join(c.Command, " ")
			if c.Ledger != "" {
				path := filepath.Join(t.TempDir(), "ledger.jsonl")
				if err := os.WriteFile(path, []byte(c.Ledger), 0o600); err != nil {
					t.Fatal(err)
				}
				line = strings.Replace(line, "LEDGER", path, 1)
			}
			if answers[line] == nil {
				out := ""
				if strings.HasPrefix(line, "train ") {
					out = " --out " + filepath.Join(t.TempDir(), "run")
				}
				answers[line] = runJSON(t, line+out)
			}
			if got := numberAt(answers[line], c.Key); !(math.Abs(got-c.Value) <= max(c.Within, 1e-9*math.Abs(got))) {
				t.Errorf("%s: the page has %s = %v, and dptrain %s has %v", e.Chapter, c.Key, c.Value, line, got)
			}
			compared++
		}
	}
	if compared < 15 {
		t.Errorf("only %d numbers were compared", compared)
	}
}

// numberAt returns the number at a path of keys with dots.
func numberAt(object map[string]any, key string) float64 {
	first, rest, deeper := strings.Cut(key, ".")
	if deeper {
		inner, _ := object[first].(map[string]any)
		return numberAt(inner, rest)
	}
	if v, ok := object[first].(float64); ok {
		return v
	}
	fmt.Fprintf(os.Stderr, "no number %s in %v\n", key, object)
	return math.NaN()
}
