package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// The outputs of runs on neighbouring data sets may differ only in released values, in what
// follows from these, and in times.
var (
	releasedKeys = []string{"test_accuracy", "test_loss", "test_rmse", "test_mae", "test_r2", "confusion", "calibration", "roc", "residuals", "validation_accuracy", "validation_mae", "released", "ledger_head"}
	clockKeys    = []string{"seconds", "examples_per_second", "finished"}

	releasedWords = regexp.MustCompile(`(test accuracy|accuracy +|validation +)[-\d.]+%|((?:test )?RMSE|MAE|R²|, loss|lot size) +[-\d.]+`)
	clockWords    = regexp.MustCompile(`[\d.]+(ms|s|m\d+s) left|[\d.e-]+ examples/s|time +[\d.]+ s|ε [\d.e+]+ \(INSECURE\),`)
)

// trace is everything that a run printed and wrote, with these masked.
func trace(t *testing.T, dir, line string, epsilons []float64) map[string]string {
	t.Helper()
	t.Chdir(dir)
	stdout, stderr, code := dptrain(line)
	if code != exitcode.Done {
		t.Fatal(stderr)
	}
	words := func(text string) string {
		return clockWords.ReplaceAllString(releasedWords.ReplaceAllString(text, "$1$2#"), "#")
	}
	all := map[string]string{"standard output": words(stdout), "standard error": words(stderr)}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".csv") {
			return err
		}
		file, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch base := filepath.Base(path); {
		case base == "run.json":
			all[path] = maskJSON(t, file)
		case base == "metrics.jsonl":
			for l := range bytes.Lines(file) {
				all[path] += maskPoint(t, l, epsilons)
			}
		case base == "ledger.jsonl": // its lines depend on how long a sync takes
			h, err := ledger.Read(path)
			if err != nil {
				return err
			}
			h.Header.Run = "" // random, and independent of the data
			all[path] = fmt.Sprintf("%+v", h)
		case base == "model.safetensors":
			n := binary.LittleEndian.Uint64(file)
			all[path] = fmt.Sprintf("%d bytes, %s", len(file), file[:8+n])
		case strings.HasSuffix(base, ".checkpoint") && !strings.Contains(base, "008"):
			// Whether there is one before the last depends on time.
		case strings.HasSuffix(base, ".checkpoint"):
			_, rest, _ := bytes.Cut(file, []byte("\n"))
			n := binary.LittleEndian.Uint64(rest)
			all[path] = fmt.Sprintf("%d bytes of numbers, %s", len(rest)-int(n), maskJSON(t, rest[8:8+n]))
		case strings.Contains(base, "tfevents"):
			all["tensorboard"] += maskEvents(file)
		case base == "report.html" || base == "MODEL_CARD.md":
			// Computed from the other files only, as the end of the test shows.
		default:
			all[path] = string(file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func maskJSON(t *testing.T, text []byte) string {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	for _, key := range slices.Concat(releasedKeys, clockKeys) {
		if _, there := v[key]; there {
			v[key] = "#"
		}
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// maskPoint also masks ε, which includes reserved lots, whose number depends on time. It
// masks only an ε that belongs to some number of lots.
func maskPoint(t *testing.T, line []byte, epsilons []float64) string {
	t.Helper()
	var p struct{ Epsilon float64 }
	if err := json.Unmarshal(line, &p); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(epsilons, p.Epsilon) {
		t.Errorf("ε %v is that of no number of lots", p.Epsilon)
	}
	text := strings.Replace(maskJSON(t, line), fmt.Sprintf(`"epsilon":%v,`, p.Epsilon), `"epsilon":"#",`, 1)
	return text + "\n"
}

var releasedTag = regexp.MustCompile(`released/[a-z0-9/-]+\x15`)

// maskEvents masks wall times, values and checksums.
func maskEvents(file []byte) string {
	var out strings.Builder
	for len(file) > 0 {
		n := binary.LittleEndian.Uint64(file)
		event := slices.Clone(file[12 : 12+n])
		clear(event[1:9])
		for _, tag := range []string{"test/accuracy\x15", "test/loss\x15", "test/rmse\x15", "test/mae\x15", "test/r2\x15", "privacy/epsilon\x15"} {
			if i := bytes.Index(event, []byte(tag)); i >= 0 {
				clear(event[i+len(tag):][:4])
			}
		}
		for _, at := range releasedTag.FindAllIndex(event, -1) {
			clear(event[at[1]:][:4])
		}
		out.Write(event)
		file = file[12+n+4:]
	}
	return out.String()
}

// On two data sets that differ in one record, with the same lots and the same small noise,
// the outputs of a run differ only in released values.
func TestTrain_OutputsOfNeighbouringData(t *testing.T) {
	const held = " --validation-split 0.25 --validation-noise 0.01"
	const metrics = " --metric accuracy:noise=50,every=1 --metric loss:noise=50,every=1,clip=1 --metric class-counts:noise=50,every=1" +
		" --metric feature-means:noise=50,every=1,clip=1 --metric lot-size:noise=50,every=1"
	for _, projection := range []string{"", " --project 2 --project-noise 0.5"} {
		neighbours(t, " --label label --classes no,yes"+held, 300, projection, "99,red,a,yes")
	}
	neighbours(t, " --label label --classes no,yes"+held+metrics, 300, "", "99,red,a,yes")
	neighbours(t, " --target age --vocabulary label=no|yes"+held, 300, "", "99,red,a,yes")
	neighbours(t, " --label label --classes no,yes --sampling truncated --max-lot 60 --constant-work"+held, 300, "", "99,red,a,yes")
}

// The same on a record that cannot be read: neither the exit code nor a message depends on it.
func TestTrain_OutputsOfBadRow(t *testing.T) {
	for _, row := range []string{"99,red,a,maybe", "secret,\"red"} {
		neighbours(t, " --label label --classes no,yes --validation-split 0.25 --validation-noise 0.01", 300, "", row)
	}
	neighbours(t, " --label label --classes no,yes --validation-split 0.25 --validation-noise 0.01 --on-bad-row blank", 300, " --project 2 --project-noise 0.5", ",red,a,yes")

	// --show-private and --on-bad-row fail show the row, and mark this.
	const train = "train --data people.csv --label label --classes no,yes --bounds age=0:100 --vocabulary colour=red|blue --ignore owner --steps 1 --lot 5 --noise 4"
	if err := os.WriteFile("people.csv", []byte("age,colour,owner,label\n20,red,a,no\n60,red,a,maybe\n"+strings.Repeat("60,blue,a,yes\n", 20)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := dptrain(train + " --out quiet"); code != exitcode.Done || strings.Contains(stderr, "blank") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if _, stderr, code := dptrain(train + " --out shown --show-private"); code != exitcode.Done || !strings.Contains(stderr, "PRIVATE, do not publish: 1 of 22 training examples") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if _, stderr, code := dptrain(train + " --out failed --on-bad-row fail"); code != exitcode.Usage || !strings.Contains(stderr, "line 3, column \"label\"") || !strings.Contains(stderr, "this message depends on private data") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if _, stderr, code := dptrain(train + " --out failed --on-bad-row skip"); code != exitcode.Usage || !strings.Contains(stderr, "--on-bad-row") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

func neighbours(t *testing.T, what string, records int, projection, replacement string) {
	t.Helper()
	line := "train --data people.csv --test test.csv --bounds age=0:100 --vocabulary colour=red|blue" + what +
		" --ignore owner --model mlp:8 --steps 8 --lot 50 --noise 0.5 --delta 1e-5 --accountant rdp --seed 5 --threads 1" +
		" --out run" + projection
	var epsilons []float64
	for n := 1; n <= 8; n++ {
		h := accountant.Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 50 / float64(records), Records: records},
			Steps: n, Noise: 0.5, Adjacency: ledger.AddRemove}.History()
		if strings.Contains(what, "truncated") {
			s := &h.Lots[0].Lot.Sampling
			s.Policy, s.LotSize = ledger.Truncated, 60
			h.Header.Adjacency = ledger.ZeroOut
		}
		for range strings.Count(what, "--metric") {
			h.Lots[0].Lot.Queries = append(h.Lots[0].Lot.Queries, ledger.Query{Group: "metric", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 50})
		}
		if projection != "" {
			every := accountant.Plan{Sampling: ledger.Sampling{Policy: ledger.FullBatch, Records: records}, Steps: 1, Noise: 0.5, Adjacency: ledger.AddRemove}
			h.Lots = append(every.History().Lots, h.Lots...)
		}
		a, err := accountant.Epsilon(h, 1e-5, "rdp")
		if err != nil {
			t.Fatal(err)
		}
		epsilons = append(epsilons, a.Epsilon)
	}
	for _, record := range []int{3, 390} {
		var traces []map[string]string
		var dirs []string
		for side := range 2 {
			dir := t.TempDir()
			t.Chdir(dir)
			table(t, "people.csv", 400)
			table(t, "test.csv", 40)
			if side == 1 {
				text := readFile(t, "people.csv")
				lines := strings.Split(string(text), "\n")
				lines[1+record] = replacement // elsewhere the color red has the label no
				if err := os.WriteFile("people.csv", []byte(strings.Join(lines, "\n")), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			traces, dirs = append(traces, trace(t, dir, line, epsilons)), append(dirs, dir)
		}
		for path, a := range traces[0] {
			if b, there := traces[1][path]; !there || a != b {
				t.Errorf("record %d: %s of one run:\n%s\nof the other:\n%s", record, path, a, b)
			}
		}
		if len(traces[0]) != len(traces[1]) || len(traces[0]) < 9 {
			t.Errorf("record %d: %d and %d traces", record, len(traces[0]), len(traces[1]))
		}

		// The data must have an effect, otherwise the test would prove nothing.
		file := func(dir, name string) []byte {
			b := readFile(t, filepath.Join(dir, "run", name))
			return b
		}
		if bytes.Equal(file(dirs[0], "model.safetensors"), file(dirs[1], "model.safetensors")) {
			t.Errorf("record %d: the weights are the same", record)
		}

		// The report and the model card depend only on the files compared above: the test
		// writes them again in the other directory from its summary, metrics and ledger.
		page, card := file(dirs[0], "report.html"), file(dirs[0], "MODEL_CARD.md")
		for _, name := range []string{"run.json", "metrics.jsonl", "ledger.jsonl", "model.safetensors"} {
			if err := os.WriteFile(filepath.Join(dirs[1], "run", name), file(dirs[0], name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Chdir(dirs[1])
		runJSON(t, "report run")
		if !bytes.Equal(file(dirs[1], "report.html"), page) || !bytes.Equal(file(dirs[1], "MODEL_CARD.md"), card) {
			t.Errorf("record %d: page or card hold more than the files that they are made of", record)
		}
	}
}
