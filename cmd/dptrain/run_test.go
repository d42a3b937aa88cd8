package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata with what the program prints")

func init() { terminal.NoteDelay = time.Hour } // a slow machine prints no more notes than a fast one

// dptrain runs a command line without the program's name.
func dptrain(line string) (stdout, stderr string, code int) {
	var out, err bytes.Buffer
	code = run(strings.Fields(line), nil, &out, &err)
	return out.String(), err.String(), code
}

// checkUsageError checks that a command line is refused by one line that contains a text.
func checkUsageError(t *testing.T, line, want string) {
	t.Helper()
	if _, stderr, code := dptrain(line); code != exitcode.Usage || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("%s: exit %d, %q lacks %q or is not one line", line, code, stderr, want)
	}
}

// runJSON runs a command with --json and returns its JSON object.
func runJSON(t *testing.T, line string) map[string]any {
	t.Helper()
	stdout, stderr, code := dptrain(line + " --json")
	if code != exitcode.Done {
		t.Fatalf("%s: exit %d, %s", line, code, stderr)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		t.Fatalf("%s does not print a JSON object: %v\n%s", line, err, stdout)
	}
	return v
}

// readFile reads a file.
func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// changeToLedgers changes to a directory with complete, unfinished, seeded and damaged ledgers.
func changeToLedgers(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	lot := func(noise float64) ledger.Lot {
		return ledger.Lot{
			Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 0.01, Records: 60000},
			Queries: []ledger.Query{
				{Group: "convolutions", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: noise},
				{Group: "dense", Mechanism: ledger.Gaussian, Sensitivity: 0.5, Noise: noise},
			},
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(path string, secure, ended bool) []byte {
		t.Helper()
		must(os.MkdirAll(filepath.Dir(path), 0o755))
		l, err := ledger.Create(path, ledger.Header{Unit: "example", Records: 60000, Adjacency: ledger.AddRemove, Secure: secure})
		must(err)
		l.LimitReservations(1) // one lot a line, independent of the clock
		for _, noise := range []float64{2, 2, 2, 4, 4} {
			must(l.Spend(lot(noise)))
		}
		if ended {
			must(l.Close())
		} else {
			t.Cleanup(func() { l.Close() })
		}
		return readFile(t, path)
	}
	save := func(path string, file ...[]byte) { must(os.WriteFile(path, bytes.Join(file, nil), 0o644)) }

	good := write("runs/mnist/ledger.jsonl", true, true)
	for _, path := range []string{"runs/mnist-copy/ledger.jsonl", "backup/ledger.jsonl"} {
		must(os.MkdirAll(filepath.Dir(path), 0o755))
		save(path, good)
	}
	write("killed.jsonl", true, false)
	write("seeded.jsonl", false, true)
	lines := bytes.SplitAfter(good, []byte("\n"))
	save("cut.jsonl", good[:len(good)-300])
	save("edited.jsonl", bytes.Replace(good, []byte(`"noise":4`), []byte(`"noise":9`), 1))
	save("dropped.jsonl", append(lines[:2:2], lines[3:]...)...)
	save("poem.txt", []byte("Roses are red\n"))
	save("empty.jsonl")
}

// numberIdentifiers replaces hashes and run identifiers, which are random, by their number in
// known, to which it adds new ones.
func numberIdentifiers(known *[]string, text string) string {
	return regexp.MustCompile(`\b([0-9a-f]{64}|[0-9a-f]{32})\b`).ReplaceAllStringFunc(text, func(id string) string {
		i := slices.Index(*known, id)
		if i < 0 {
			i = len(*known)
			*known = append(*known, id)
		}
		return fmt.Sprintf("<%d digits, number %d>", len(id), i+1)
	})
}

// TestTranscripts runs the commands in testdata/*.txt and compares their output. Numbers may differ
// by 0.2%: the accountants have stricter tests.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no transcripts", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			path, err := filepath.Abs(file)
			if err != nil {
				t.Fatal(err)
			}
			want := readFile(t, path)
			changeToLedgers(t)
			var got strings.Builder
			var identifiers []string
			for _, line := range strings.Split(string(want), "\n") {
				if args, ok := strings.CutPrefix(line, "$ dptrain"); ok {
					stdout, stderr, code := dptrain(args)
					fmt.Fprintf(&got, "%s\n%s", line, numberIdentifiers(&identifiers, stdout))
					for l := range strings.Lines(stderr) {
						got.WriteString("! " + l)
					}
					fmt.Fprintf(&got, "exit %d\n\n", code)
				}
			}
			if *update {
				if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			compareTexts(t, got.String(), string(want))
		})
	}
}

var numeral = regexp.MustCompile(`\d+(\.\d+)?(e[+-]?\d+)?`)

func compareTexts(t *testing.T, got, want string) {
	t.Helper()
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || !sameLine(gotLines[i], wantLines[i]) {
			t.Errorf("line %d differs; if it should, run the test with -update\ngot:\n%s", i+1, got)
			return
		}
	}
}

func sameLine(got, want string) bool {
	blank := func(s string) string {
		return strings.Join(strings.Fields(numeral.ReplaceAllString(s, "#")), " ")
	}
	if blank(got) != blank(want) {
		return false
	}
	g, w := numeral.FindAllString(got, -1), numeral.FindAllString(want, -1)
	for i := range w {
		a, _ := strconv.ParseFloat(g[i], 64)
		b, _ := strconv.ParseFloat(w[i], 64)
		if math.Abs(a-b) > 0.002*math.Abs(b) {
			return false
		}
	}
	return true
}

// An error is one line on standard error, nothing on standard output, and the exit code that
// scripts rely on.
func TestErrors(t *testing.T) {
	changeToLedgers(t)
	const run = " --rate 0.01 --noise 4 --steps 100 --delta 1e-5"
	for _, test := range []struct {
		line string
		code int
		want string
	}{
		{"bugdet", 2, "did you mean budget?"},
		{"budget epsilom", 2, "did you mean epsilon?"},
		{"help budget nosie", 2, "did you mean noise?"},
		{"budget epsilon --nois 3", 2, "did you mean --noise?"},
		{"budget epsilon -x", 2, "there is no flag -x"},
		{"-v", 2, "did you mean --version?"},
		{"train --batch-size 64", 2, "there is no flag --batch-size: did you mean --lot?"},
		{"train --batch_size 64", 2, "did you mean --lot?"},
		{"train --learning-rate 0.1", 2, "did you mean --lr?"},
		{"train --max-grad-norm 1", 2, "did you mean --clip?"},
		{"train --noise-multiplier 1", 2, "did you mean --noise?"},
		{"train --num-epochs 3", 2, "did you mean --epochs?"},
		{"train -o runs/x", 2, "did you mean --out?"},
		{"budget epsilon --sample-rate 0.01", 2, "did you mean --rate?"},
		{"budget epsilon --batch-size 64", 2, "did you mean --lot?"},
		{"train --model resnet18", 2, `did you mean "wrn16-4"?`},
		{"budget epsilon --rate", 2, "--rate needs a value"},
		{"budget epsilon --rate x", 2, "not a number"},
		{"budget epsilon --steps 1.5", 2, "not a whole number"},
		{"budget epsilon --json=maybe", 2, "true or false"},
		{"budget epsilon 3" + run, 2, "unexpected argument"},
		{"budget epsilon --accountant rdq" + run, 2, "did you mean rdp?"},
		{"budget epsilon --sampling poison" + run, 2, "did you mean poisson?"},
		{"budget epsilon --adjacency x" + run, 2, "replace-one"},

		{"budget epsilon --rate 0.01 --noise 4 --steps 100 --delta 0", 2, "--delta 0"},
		{"budget epsilon --rate 0.01 --noise 4 --steps 100 --delta 1", 2, "--delta 1"},
		{"budget epsilon --rate 0.01 --noise 4 --steps 100 --delta -1", 2, "--delta -1"},
		{"budget epsilon --rate 0.01 --noise 4 --steps 100 --delta NaN", 2, "--delta NaN"},
		{"budget epsilon --rate 0 --noise 4 --steps 100 --delta 1e-5", 2, "--rate 0"},
		{"budget epsilon --rate 1.1 --noise 4 --steps 100 --delta 1e-5", 2, "--rate 1.1"},
		{"budget epsilon --rate NaN --noise 4 --steps 100 --delta 1e-5", 2, "--rate NaN"},
		{"budget epsilon --rate 0.01 --noise 0 --steps 100 --delta 1e-5", 2, "--noise 0"},
		{"budget epsilon --rate 0.01 --noise -1 --steps 100 --delta 1e-5", 2, "--noise -1"},
		{"budget epsilon --rate 0.01 --noise Inf --steps 100 --delta 1e-5", 2, "--noise +Inf"},
		{"budget epsilon --rate 0.01 --noise 4 --steps 0 --delta 1e-5", 2, "--steps 0"},
		{"budget epsilon --rate 0.01 --noise 4 --steps -5 --delta 1e-5", 2, "--steps -5"},
		{"budget epsilon --rate 0.01 --noise 4 --epochs 0 --delta 1e-5", 2, "--epochs 0"},
		{"budget epsilon --rate 0.01 --noise 4 --epochs 1e300 --delta 1e-5", 2, "--epochs 1e+300"},
		{"budget epsilon --records 0 --lot 1 --noise 4 --steps 1", 2, "--records 0"},
		{"budget epsilon --records 10 --lot 11 --noise 4 --steps 1", 2, "--lot 11"},
		{"budget epsilon --records 10 --lot 0 --noise 4 --steps 1", 2, "--lot 0"},
		{"budget noise --rate 0.01 --steps 100 --delta 1e-5 --epsilon 0", 2, "--epsilon 0"},
		{"budget noise --rate 0.01 --steps 100 --delta 1e-5 --epsilon -2", 2, "--epsilon -2"},
		{"budget noise --rate 0.01 --steps 100 --delta 1e-5 --epsilon NaN", 2, "--epsilon NaN"},
		{"budget delta --rate 0.01 --noise 4 --steps 100 --epsilon -1", 2, "--epsilon -1"},

		{"budget epsilon --groups 1:4,2 --rate 0.01 --steps 100 --delta 1e-5", 2, `"2"`},
		{"budget epsilon --groups 1:0 --rate 0.01 --steps 100 --delta 1e-5", 2, `"1:0"`},
		{"budget epsilon --groups 0:4 --rate 0.01 --steps 100 --delta 1e-5", 2, `"0:4"`},
		{"budget epsilon --groups a:b --rate 0.01 --steps 100 --delta 1e-5", 2, `"a:b"`},

		{"budget epsilon --noise 4 --steps 100 --delta 1e-5", 2, "give --rate"},
		{"budget epsilon --lot 5 --noise 4 --steps 100 --delta 1e-5", 2, "--records"},
		{"budget epsilon --rate 0.01 --steps 100 --delta 1e-5", 2, "give --noise"},
		{"budget epsilon --rate 0.01 --noise 4 --delta 1e-5", 2, "give --steps"},
		{"budget epsilon --rate 0.01 --noise 4 --steps 100", 2, "give --delta"},
		{"budget noise --rate 0.01 --steps 100 --delta 1e-5", 2, "give --epsilon"},
		{"budget epsilon --sampling fixed --lot 5 --noise 4 --steps 1 --delta 1e-5", 2, "--records"},
		{"budget epsilon --sampling shuffle --records 50 --noise 4 --steps 1", 2, "--lot"},

		{"budget epsilon --epsilon 3" + run, 2, "leave it out"},
		{"budget compare --epsilon 3" + run, 2, "leave it out"},
		{"budget noise --noise 3 --epsilon 1" + run, 2, "leave it out"},
		{"budget steps --epochs 3 --rate 0.01 --noise 4 --delta 1e-5 --epsilon 1", 2, "leave it out"},
		{"budget rate --lot 3 --records 5 --noise 4 --steps 1 --epsilon 1", 2, "leave it out"},
		{"budget rate --epochs 3 --noise 4 --delta 1e-5 --epsilon 1", 2, "give --steps"},
		{"budget epsilon --lot 6 --records 600" + run, 2, "exclude each other"},
		{"budget epsilon --epochs 3" + run, 2, "exclude each other"},
		{"budget epsilon --groups 1:4" + run, 2, "exclude each other"},
		{"budget epsilon --sampling fixed" + run, 2, "does not use --rate"},
		{"budget epsilon --sampling none" + run, 2, "every record"},

		{"budget steps --rate 0.5 --noise 0.3 --epsilon 0.001 --delta 1e-5", 2, "one step already spends"},
		{"budget rate --sampling fixed --records 50 --steps 1000 --noise 0.3 --epsilon 0.001 --delta 1e-5", 2, "lots of one record already spend"},

		{"budget rate --noise 0.05 --steps 1000000 --epsilon 1e-5 --delta 1e-15", 2, "still spends"},
		{"budget noise --rate 0.01 --steps 100 --epsilon 0.001 --delta 1e-10 --accountant moments", 2, "still spends 0.09"},
		{"budget noise --rate 0.01 --steps 100 --epsilon 1e30 --delta 0.4 --accountant zcdp", 2, "the nearest is epsilon"},

		{"train --epochs 1e300 --dry-run", 2, "more than 2^53 lots"},

		{"budget compare --rate 0.01 --noise 4 --steps 9007199254740993 --delta 1e-5", 2, "more than 2^53 lots"},
		{"budget curve --out x.svg --rate 0.01 --groups 1:4,1:4 --steps 9007199254740992 --delta 1e-5", 2, "more than 2^53 lots"},
		{"budget curve" + run, 2, "--out"},
		{"budget curve --out x.jpg" + run, 2, ".png"},
		{"budget curve --out none/x.svg" + run, 2, "none/x.svg"},
		{"budget curve --out x.svg --points 1" + run, 2, "--points 1"},
		{"budget curve --out x.svg --accountants rdp,gpd" + run, 2, "gpd"},
		{"budget statement --record house" + run, 2, "house"},
		{"train --stop-at-epsilon 0 --steps 2 --out stopped", 2, "--stop-at-epsilon 0: give a number above 0"},
		{"train --stop-at-epsilon nan --steps 2 --out stopped", 2, "--stop-at-epsilon NaN: give a finite number above 0"},
		{"train --sampling shuffle --rate 0.1 --steps 2 --out stopped", 2, "give --lot"},
		{"budget statement --record microbatch:0" + run, 2, "K of at least 1"},
		{"budget statement --record microbatch:x" + run, 2, "K of at least 1"},

		{"ledger show", 2, "name one ledger"},
		{"ledger show poem.txt/x", 2, "poem.txt/x: "},
		{"train --resume poem.txt/x", 2, "poem.txt"},
		{"ledger verify a b", 2, "name one ledger"},
		{"ledger verify none.jsonl", 2, "none.jsonl does not exist"},
		{"ledger verify .", 2, ". contains no ledger.jsonl"},
		{"ledger epsilon runs", 2, "ledger.jsonl"},
		{"ledger epsilon runs/mnist --delta 2", 2, "--delta 2"},
		{"ledger epsilon runs/mnist --delta 0", 2, "--delta 0"},
		{"ledger epsilon runs/mnist --accountant rpd", 2, "did you mean"},
		{"ledger verify poem.txt", 4, "poem.txt: line 1: this file is not a dptrain ledger"},
		{"ledger show poem.txt", 4, "not a dptrain ledger"},
		{"ledger epsilon poem.txt", 4, "not a dptrain ledger"},
		{"ledger verify empty.jsonl", 4, "empty"},
		{"ledger verify edited.jsonl", 4, "edited.jsonl: line 5"},
		{"ledger epsilon edited.jsonl", 4, "edited.jsonl: line 5"},
		{"ledger show dropped.jsonl", 4, "dropped.jsonl: line 3"},
		{"ledger verify cut.jsonl", 4, "line 6"},
		{"ledger verify runs/mnist --head 00", 4, "its head is"},

		{"completion", 2, "bash"},
		{"completion bsh", 2, "did you mean bash?"},
		{"version now", 2, "unexpected argument"},
	} {
		stdout, stderr, code := dptrain(test.line)
		if code != test.code || stdout != "" || !strings.HasPrefix(stderr, "dptrain: ") || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, test.want) {
			t.Errorf("dptrain %s\nwant exit %d and a line with %q, got exit %d\n%s%s", test.line, test.code, test.want, code, stdout, stderr)
		}
	}
}

func TestGroup_PrintsHelp(t *testing.T) {
	for line, want := range map[string]string{"--json": "budget, choose, completion", "budget --json": "compare, curve", "ledger --json": "epsilon, show"} {
		if stdout, stderr, code := dptrain(line); code != exitcode.Usage || stdout != "" || !strings.Contains(stderr, "--json needs a command: choose from "+want) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", line, code, stdout, stderr)
		}
	}
	if help := runText(t, "budget rate --help"); strings.Contains(help, "--epochs") || strings.Contains(help, "--rate ") || !strings.Contains(help, "--steps") {
		t.Errorf("the help lists flags that do not apply:\n%s", help)
	}
	for _, line := range []string{"", "budget", "ledger", "help", "help budget noise", "--help", "budget epsilon --help"} {
		stdout, stderr, code := dptrain(line)
		if code != exitcode.Done || stderr != "" || !strings.Contains(stdout, "Usage:") || !strings.Contains(stdout, "Examples:") {
			t.Errorf("dptrain %s: exit %d, %s", line, code, stderr)
		}
	}
}

// Every flag of train is in a section of the help, with a heading before it; the main help lists
// commands in groups.
func TestHelp_HasSections(t *testing.T) {
	help := runText(t, "train --help")
	for _, want := range []string{"\nData:\n      --data string", "\nPrivacy:\n      --epsilon float", "\nLots:\n", "\nRun:\n", "\nOther flags:\n  -h, --help   help for train\n\nFlags of every command:\n"} {
		if !strings.Contains(help, want) {
			t.Errorf("no %q in\n%s", want, help)
		}
	}
	if help := runText(t, "--help"); !strings.Contains(help, "\nAccount for privacy:\n  budget ") {
		t.Errorf("no groups of commands in\n%s", help)
	}
}

// createLedger creates the ledger of a run of one lot.
func createLedger(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Create(path, ledger.Header{Unit: "example", Records: 60000, Adjacency: ledger.ZeroOut, Secure: true})
	if err == nil {
		err = l.Spend(ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 0.01, Records: 60000},
			Queries: []ledger.Query{{Group: "all", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 4}}})
	}
	if err == nil {
		l.SetComplete()
		err = l.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Every example in the help of these commands works.
func TestExamples(t *testing.T) {
	changeToLedgers(t)
	for _, run := range []string{"first", "north", "south"} {
		createLedger(t, "runs/"+run+"/ledger.jsonl")
	}
	const projectBudget = "people.budget"
	root := newRoot(&terminal.Terminal{})
	ran := 0
	for _, group := range root.Commands() {
		switch group.Name() {
		case "budget", "ledger", "version", "help":
		default:
			continue
		}
		for _, cmd := range append(group.Commands(), group) {
			if cmd.Short == "" || cmd.Example == "" {
				t.Errorf("%s has no description or no example", cmd.CommandPath())
			}
			for line := range strings.Lines(cmd.Example) {
				args, ok := strings.CutPrefix(strings.TrimSpace(line), "dptrain ")
				if !ok || strings.Contains(args, "…") || strings.Contains(args, "strong") && !hasAccountant("strong") {
					continue
				}
				ran++
				opens := strings.HasPrefix(args, "budget open")
				if opens {
					os.Remove(projectBudget)
				} else if _, err := os.Stat(projectBudget); err != nil && strings.Contains(args, projectBudget) {
					runText(t, "budget open "+projectBudget+" --epsilon 4 --delta 1e-5")
				}
				if strings.HasPrefix(args, "train ") {
					args += " --steps 2"
				}
				if _, stderr, code := dptrain(args); code != exitcode.Done {
					t.Errorf("dptrain %s: exit %d, %s", args, code, stderr)
				}
			}
		}
	}
	if ran < 15 {
		t.Errorf("only %d examples were found", ran)
	}
}

func hasAccountant(name string) bool {
	for _, n := range accountant.Names() {
		if n == name {
			return true
		}
	}
	return false
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		stdout, stderr, code := dptrain("completion " + shell)
		if code != exitcode.Done || !strings.Contains(stdout, "dptrain") || len(stdout) < 1000 {
			t.Errorf("%s: exit %d, %d bytes, %s", shell, code, len(stdout), stderr)
		}
		if v := runJSON(t, "completion "+shell); v["script"] == "" {
			t.Errorf("%s: the script is missing under --json", shell)
		}
	}
	script, _, _ := dptrain("completion bash")
	if help, _, _ := dptrain("completion --help"); strings.Contains(script, "_get_comp_words_by_ref") != strings.Contains(help, "package bash-completion") {
		t.Errorf("the help does not name the package that the bash script requires:\n%s", help)
	}
	for line, value := range map[string]string{"budget epsilon --sampling": "shuffle", "budget epsilon --adjacency": "replace-one", "budget epsilon --accountant": "rdp", "budget curve --accountants": "rdp",
		"export --format": "onnx", "predict --format": "jsonl", "train --sampling": "shuffle", "train --clipping": "adaptive", "train --optimizer": "adamw", "train --decay-of": "matrices",
		"train --allocation": "dimension", "train --preset": "tfp-mnist", "train --model": "mlp", "train --device": "gorgonia", "train --precision": "bf16", "tune --runs": "poisson"} {
		if offered := runText(t, "__complete "+line+"="); !strings.Contains("\n"+offered, "\n"+value) {
			t.Errorf("%s: the completions lack %s:\n%s", line, value, offered)
		}
	}
}

// Names that other commands accept are listed as text, as JSON and, with --quiet, as bare names.
func TestCatalogs(t *testing.T) {
	for command, want := range map[string]string{"data": "digits", "models": "mlp", "presets": "tfp-mnist", "devices": "cpu"} {
		names := runText(t, command+" --quiet")
		rows := runJSON(t, command)[command].([]any)
		listed := ""
		for _, row := range rows {
			name := row.(map[string]any)["name"].(string)
			listed += name + "\n"
			if shown := runText(t, command); !strings.Contains("\n"+shown, "\n"+name) {
				t.Errorf("%s does not show %s:\n%s", command, name, shown)
			}
		}
		if listed != names || !strings.Contains("\n"+names, "\n"+want+"\n") {
			t.Errorf("%s lists %q, and under --json %q", command, names, listed)
		}
	}
	if v := runJSON(t, "doctor"); len(v["findings"].([]any)) < 4 || !strings.Contains(runText(t, "doctor"), "processor") {
		t.Errorf("doctor finds %v", v)
	}
}

func TestVersion(t *testing.T) {
	v := runJSON(t, "version")
	for _, key := range []string{"version", "go", "platform"} {
		if v[key] == nil || v[key] == "" {
			t.Errorf("%s is missing in %v", key, v)
		}
	}
	if stdout, _, _ := dptrain("version --quiet"); strings.TrimSpace(stdout) != v["version"] {
		t.Errorf("--quiet prints %q, want %v", stdout, v["version"])
	}
}

func TestCollectOften_RespectsGOGC(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for gogc, want := range map[string]int{"": 25, "100": 100} {
		t.Setenv("GOGC", gogc)
		collectOften()
		if got := debug.SetGCPercent(100); got != want {
			t.Errorf("GOGC=%q: the collector runs at %d%%, want %d%%", gogc, got, want)
		}
	}
}
