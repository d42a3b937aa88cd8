package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"gopkg.in/yaml.v3"
)

// The reported cost of a private run is what an accountant computes from its ledger.
func TestPage_PrivateRun(t *testing.T) {
	s := newFixture()
	page, card := s.render(t)
	plan := accountant.Plan{Sampling: s.lots[0].Lot.Sampling, Steps: 1000, Noise: 1.1, Adjacency: ledger.AddRemove}
	a, err := accountant.Epsilon(plan.History(), 1e-5, "pld")
	if err != nil {
		t.Fatal(err)
	}
	bracket := number.RoundDown(a.LowerBound) + " ≤ ε ≤ " + number.RoundUp(a.Epsilon)
	history := plan.History()
	history.Header.Unit, history.Header.Secure = "example", true
	head := s.summary["ledger_head"].(string)
	both := []string{bracket, "10⁻⁵", "add-or-remove-one", "one training example", "cryptographic generator", "95.00%", "digits-cnn trained on mnist",
		"1 min 23 s", "linux/amd64", "momentum", "v1.0.0", "dptrain ledger verify ledger.jsonl --head " + head}
	requireContains(t, "the page", page, append(both, `<dt>test accuracy</dt><dd><span class="value">95.00%</span> <span class="note">on public data</span>`, "below 1 / 60\u202f000 records", "of 60\u202f000 training records", "ε over lots", `<td class="right">94%</td>`, `<td class="right">96%</td>`, "1\u202f000 releases, 1 run", ">cat<", ">dog<", "26\u202f010 weights", "1 March 2026",
		Statement(history, a), `aria-labelledby="cost-name cost-about"`, `aria-labelledby="accuracy-name accuracy-about"`)...)
	requireContains(t, "the card", card, append(both, "differential-privacy", "dptrain ledger epsilon ledger.jsonl --delta 1e-5 --accountant pld", markdown(Statement(history, a)))...)
	requireLacks(t, "the page", page, "role=\"alert\"", "NOT PRIVATE", "INSECURE", "Insecure", "anna", "secret-study")
	requireLacks(t, "the card", card, "NOT PRIVATE", "INSECURE", "anna", "secret-study")
	for _, name := range accountant.Names() {
		requireContains(t, "the page", page, AccountantName(name), `class="line `+name)
	}
}

// The page is self-contained: a browser loads nothing else.
func TestPage_SelfContained(t *testing.T) {
	page, _ := newFixture().render(t)
	requireLacks(t, "the page", page, "http://", "https://", "url(", "@import", "<script", "<img", "<iframe", "src=", "/*style*/")
	requireContains(t, "the page", page, "default-src 'none'", "--paper: #fdfcfa")
}

// The page and the card name the page on the guarantee, in the repository of go.mod, for a reader who
// has only the run's files. The page exists.
func TestPage_NamesGuarantee(t *testing.T) {
	module, err := os.ReadFile("../../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(module), "module "+repository+"\n") {
		t.Errorf("the repository is %s, and go.mod begins %.60q", repository, module)
	}
	if _, err := os.Stat("../../../../" + guaranteePage); err != nil {
		t.Error(err)
	}
	page, card := newFixture().render(t)
	for what, text := range map[string]string{"the page": page, "the card": card} {
		requireContains(t, what, text, "docs/guarantee.md in the repository github.com/dptrain/dptrain lists what this guarantee assumes")
	}
}

func TestPage_NotPrivate(t *testing.T) {
	s := newFixture()
	for _, key := range []string{"delta", "unit"} {
		delete(s.summary, key)
	}
	s.summary["private"], s.summary["accountant"], s.summary["clipping"] = false, "none", "none"
	page, card := s.render(t)
	requireContains(t, "the page", page, `class="warning danger" role="alert"`, "Not private", "ε = ∞", "There is no privacy guarantee", "Test accuracy over lots", "95.00%")
	requireLacks(t, "the page", page, "ledger.jsonl", "DP-SGD", "The ledger", "Everything on this page is public")
	requireContains(t, "the card", card, "> **NOT PRIVATE.**", "There is no privacy guarantee (ε = ∞)")
	requireLacks(t, "the card", card, "differential-privacy", "dp-sgd", "ledger.jsonl")
}

func TestPage_Insecure(t *testing.T) {
	s := newFixture()
	s.header.Secure = false
	page, card := s.render(t)
	requireContains(t, "the page", page, `class="warning caution" role="alert"`, "Insecure", "INSECURE: from a seed", "insecure: seeded", "Suppose that an adversary who does not know the seed has", insecureSentence)
	requireContains(t, "the card", card, "> **INSECURE.**", "INSECURE: from a seed", insecureSentence)
	requireLacks(t, "the card", card, "differential-privacy", "dp-sgd")
}

// The page and the card state the proven ε, mark the published one, and mark an approximation.
func TestPage_EpsilonWithoutProof(t *testing.T) {
	s := newFixture()
	s.header.Adjacency = ledger.ReplaceOne
	s.lots[0].Lot.Sampling = ledger.Sampling{Policy: ledger.FixedSize, LotSize: 600, Records: 60000}
	s.lots[0].Lot.Queries[0].Noise, s.lots[0].Count = 4, 10
	page, card := s.render(t)
	a, err := accountant.Epsilon(ledger.History{Header: s.header, Lots: s.lots}, 1e-5, "pld")
	if err != nil {
		t.Fatal(err)
	}
	both := "ε ≤ " + number.RoundUp(a.Epsilon) + ", proven for any data; the published ε = " + number.RoundUp(a.Published) + " holds only for some data"
	requireContains(t, "the page", page, a.Note, both, "with ε = "+number.RoundUp(a.Epsilon)+" (", "proven for any data; published: "+number.Round(a.Published, 1, 4)+"</span></dd>",
		strconv.FormatFloat(math.Ceil(1000*guessProbability(a.Epsilon, a.Delta))/10, 'f', 1, 64)+"%</strong>")
	requireContains(t, "the card", card, markdown(a.Note), both)

	s = newFixture()
	s.summary["accountant"], s.lots[0].Count = "gdp", 10
	page, card = s.render(t)
	requireContains(t, "the page", page, `"warning-title">Approximate<`, "the run may have spent more", "with ε ≈ ", ", an approximation that may be too small", "an approximation, not a bound</span></dd>", `<td class="number">≈ `)
	requireLacks(t, "the page", page, "Blind guessing")
	requireContains(t, "the card", card, "> **APPROXIMATE.**", "the run may have spent more", "ε ≈ ")

	s = newFixture()
	s.summary["delta"], s.lots[0].Count = 1e-3, 10
	page, card = s.render(t)
	requireContains(t, "the page", page, "Delta too large", "TOO LARGE: not below", "δ = 0.001 is not below 1/60000, one over the number of records")
	requireContains(t, "the card", card, "> **DELTA TOO LARGE.**", "δ = 0.001 is not below 1/60000, one over the number of records")
}

// The report shows only the keys that it knows. None of them depends on the private data.
func TestPage_ShowsOnlyPublicKeys(t *testing.T) {
	s := newFixture()
	s.summary["train_loss"], s.summary["lot_sizes"], s.summary["seed"], s.summary["out"] = 0.7771, []int{77721}, 77731, "/home/77741/out"
	s.summary["clipped"] = map[string]any{"fraction": 0.7775, "PRIVATE": "7776private"}
	s.metrics = `{"lot":500,"test_accuracy":0.9,"train_loss":0.7778,"records":77781,"note":"7779private"}` + "\n" + `{"lot":1000,"private":{"test_accuracy":0.7770}}` + "\n"
	page, card := s.render(t)
	requireLacks(t, "the page", page, "777")
	requireLacks(t, "the card", card, "777")
}

// A name cannot add markup.
func TestPage_EscapesHostileNames(t *testing.T) {
	const hostile = `"><script>alert(1)</script><img src=x onerror='a()'> | ](javascript:b) ` + "`c` {{.Title}}\n# d\n---\n\u2028"
	tags := func(page string) []string {
		return regexp.MustCompile(`<[!/]?[a-zA-Z][a-zA-Z0-9]*`).FindAllString(page, -1)
	}
	named := func(name string) (page, card string) {
		s := newFixture()
		for _, key := range []string{"model", "clipping", "optimizer", "decay_of", "lr_of", "schedule", "preset", "init", "freeze", "device", "platform", "version", "sampling", "task", "allocation"} {
			s.summary[key] = name
		}
		s.summary["data"] = "x" + strings.ReplaceAll(name, "/", "")
		s.summary["class_names"] = []string{name, name}
		s.summary["columns"] = []map[string]any{{"name": name, "use": name}, {"name": name, "use": "words", "words": []string{name}, "count": 1}}
		s.summary["test_data"] = "x" + strings.ReplaceAll(name, "/", "")
		s.summary["linear"] = map[string]any{"weights": []map[string]any{{"feature": name, "value": 1, "class": 0}}, "noise_unknown": name}
		s.header.Unit = "user:" + name
		l := lot(1, 2, 1, 2)
		l.Queries[0].Group = name
		s.lots = []ledger.RepeatedLot{{Lot: l, Count: 3}}
		s.summary["steps"] = 3
		return s.render(t)
	}
	page, card := named(hostile)
	mild, _ := named("name")
	got, want := tags(page), tags(mild)
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("a name adds to the page's elements: %d instead of %d", len(got), len(want))
	}
	requireLacks(t, "the page", page, "<script", "<img", "onerror='")
	requireContains(t, "the page", page, "&lt;script&gt;alert(1)")

	_, rest, _ := strings.Cut(card, "---\n")
	end := strings.Index(rest, "\n---\n")
	var front struct {
		Task  string `yaml:"pipeline_tag"`
		Index []struct {
			Name string `yaml:"name"`
		} `yaml:"model-index"`
	}
	if err := yaml.Unmarshal([]byte(rest[:end]), &front); err != nil {
		t.Fatal(err)
	}
	if front.Task != hostile || len(front.Index) != 1 || front.Index[0].Name != hostile {
		t.Errorf("the card's front matter reads back as %+v", front)
	}
	body := rest[end+5:]
	requireLacks(t, "the card", strings.ReplaceAll(body, `\]`, ""), "<", "](", "`c`")
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "|") && len(regexp.MustCompile(`[^\\]\|`).FindAllString(" "+line, -1)) != 3 {
			t.Errorf("not two cells: %s", line)
		}
		if strings.HasPrefix(line, "# ") && !strings.Contains(line, "trained on") {
			t.Errorf("a heading of its own: %s", line)
		}
	}
}

func TestPage_WithoutTestData(t *testing.T) {
	s := newFixture()
	for _, key := range []string{"test_accuracy", "test_loss", "test_examples", "test_labels", "confusion", "class_names"} {
		delete(s.summary, key)
	}
	s.metrics = `{"lot":500}` + "\n" + `{"lot":1000}` + "\n"
	page, card := s.render(t)
	requireContains(t, "the page", page, "no public test data")
	requireLacks(t, "the page", page, "test accuracy", "<table class=\"confusion\"", "accuracy-about")
	requireContains(t, "the card", card, "no public test data")
	requireLacks(t, "the card", card, "model-index")
}

// One lot gives no curve, and a run without lots has no ε. The page can show both.
func TestPage_OneLotOrNone(t *testing.T) {
	s := newFixture()
	s.lots[0].Count, s.summary["steps"] = 1, 1
	s.metrics = `{"lot":1,"test_accuracy":0.1}` + "\n"
	page, card := s.render(t)
	requireContains(t, "the page", page, "1 lot of about 600", `class="key"`, `class="dot"`)
	requireLacks(t, "the page", page, "cost-about", "NaN", "Inf")
	requireContains(t, "the card", card, "The only step drew each of")

	s = newFixture()
	s.lots, s.summary["steps"], s.metrics = nil, 0, ""
	page, card = s.render(t)
	requireContains(t, "the page", page, "Nothing that depends on the training data was released")
	requireLacks(t, "the page", page, "NaN", "Inf", `class="key"`)
	requireContains(t, "the card", card, "Nothing that depends on the training data was released")
}

// Adaptive clipping changes the bound and the noise together. Its counts cost budget.
func TestPage_AdaptiveGroups(t *testing.T) {
	s := newFixture()
	s.lots = []ledger.RepeatedLot{{Lot: lot(1, 2, 0.5, 0.5), Count: 1}, {Lot: lot(3, 6, 0.5, 0.5), Count: 2}}
	s.summary["steps"], s.summary["clipping"] = 3, "adaptive"
	page, _ := s.render(t)
	// Each lot spends (1/2)² on the gradient and 1² on the counts: 20% and 80%.
	requireContains(t, "the page", page, "1 to 3", "2 to 6", ">20.0%<", ">80.0%<", `width="20"`, `width="80"`, "first clip bound", "noise multiplier</dt><dd>0.8944<")
}

func TestPage_LaplaceHasNoShare(t *testing.T) {
	s := newFixture()
	l := lot(1, 2, 1, 2)
	l.Queries[1].Mechanism = ledger.Laplace
	s.lots = []ledger.RepeatedLot{{Lot: l, Count: 3}}
	s.summary["steps"], s.summary["accountant"] = 3, "rdp"
	page, _ := s.render(t)
	requireContains(t, "the page", page, "dense (laplace)", "sum with noise.", "the gdp accountant supports Gaussian noise only", "rdp (Rényi, order ")
	requireLacks(t, "the page", page, `class="bar"`, "NaN")
}

func TestPage_LargeEpsilon(t *testing.T) {
	s := newFixture()
	s.lots = []ledger.RepeatedLot{{Lot: lot(1, 0.1), Count: 2}}
	s.summary["steps"], s.summary["accountant"] = 2, "naive"
	page, _ := s.render(t)
	requireContains(t, "the page", page, "<strong>100.00%</strong>", "above 1000")
	requireLacks(t, "the page", page, "NaN", "+Inf")
}

// With too many classes for a matrix of counts, the page lists the worst mistakes and draws the
// matrix.
func TestPage_ManyClasses(t *testing.T) {
	s := newFixture()
	counts := make([][]int, 40)
	var names []string
	for i := range counts {
		counts[i] = make([]int, 40)
		counts[i][i] = 10
		names = append(names, fmt.Sprintf("class-%d", i))
	}
	counts[7][9], counts[3][4] = 123, 45
	s.summary["confusion"], s.summary["class_names"] = counts, names
	page, _ := s.render(t)
	requireContains(t, "the page", page, "<td>class-7</td><td>class-9</td><td class=\"number\">123</td><td class=\"number\">92%</td></tr>\n<tr><td>class-3</td>", "Confusion matrix of 40 classes", "M9 7h1v1h-1z")
	requireLacks(t, "the page", page, "<table class=\"confusion\"")
}

// A release other than a training lot is not counted as a lost lot, and no accuracy is shown
// at an ε that omits it.
func TestPage_OtherReleases(t *testing.T) {
	s := newFixture()
	other := lot(1, 20)
	other.Sampling = ledger.Sampling{Policy: ledger.FullBatch, Records: 4000}
	s.lots = []ledger.RepeatedLot{{Lot: lot(1, 1.1), Count: 500}, {Lot: other, Count: 1}, {Lot: lot(1, 1.1), Count: 500}, {Lot: other, Count: 1}}
	run, err := Open(s.write(t))
	if err != nil {
		t.Fatal(err)
	}
	page, err := run.Page()
	if err != nil {
		t.Fatal(err)
	}
	requireLacks(t, "the page", string(page), "crash", "ε over lots", "number of lots")
	requireContains(t, "the page", string(page), "ε over releases", "after each number of releases")
	requireCosts(t, run, page, 502, 1002)
}

// requireCosts fails if the page lacks the ε of the first lots.
func requireCosts(t *testing.T, run *Run, page []byte, lots ...int) {
	t.Helper()
	for _, at := range lots {
		e, err := run.accounting.epsilonAfter(at)
		if err != nil {
			t.Fatal(err)
		}
		requireContains(t, "the page", string(page), "at ε = "+number.Round(e, 1, 4)+"<")
	}
}

// After a crash the ledger has lots that did not train the model. They count, and no accuracy
// is shown at an ε below its cost.
func TestPage_LostLots(t *testing.T) {
	s := newFixture()
	s.summary["steps"] = 900
	s.metrics = `{"lot":450,"test_accuracy":0.8}` + "\n" + `{"lot":700,"test_accuracy":0.85}` + "\n" + `{"lot":450,"test_accuracy":0.81}` + "\n" + `{"lot":900,"test_accuracy":0.95}` + "\n" + `{"lot":9`
	run, err := Open(s.write(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(run.points) != 2 || *run.points[0].Accuracy != 0.81 || run.points[1].Lot != 900 {
		t.Errorf("points %+v: want the resumed run's two", run.points)
	}
	page, err := run.Page()
	if err != nil {
		t.Fatal(err)
	}
	requireContains(t, "the page", string(page), "The ledger also contains 100 lots that a crash lost")
	requireCosts(t, run, page, 550, 1000)
}

// An invalid directory is refused by an error of one line that names the place.
func TestOpen_Errors(t *testing.T) {
	for name, test := range map[string]struct {
		change func(s *runFixture, dir string) // dir is empty before the folder is made
		want   string
	}{
		"another ledger": {func(s *runFixture, dir string) { s.summary["ledger_head"] = strings.Repeat("0", 64) }, "summary names"},
		"negative count": {func(s *runFixture, dir string) { s.summary["confusion"] = [][]int{{1, -1}, {0, 1}} }, "a count is -1"},
		"ragged matrix":  {func(s *runFixture, dir string) { s.summary["confusion"] = [][]int{{1}, {0, 1}} }, "a row has 1 counts"},
		"accuracy":       {func(s *runFixture, dir string) { s.summary["test_accuracy"] = 1.5 }, "test_accuracy 1.5"},
		"no share":       {func(s *runFixture, dir string) { s.summary["test_accuracy"] = -0.5 }, "test_accuracy -0.5"},
		"no steps":       {func(s *runFixture, dir string) { s.summary["steps"] = -1 }, "steps -1,"},
		"no records":     {func(s *runFixture, dir string) { s.summary["records"] = -1 }, "records -1:"},
		"delta":          {func(s *runFixture, dir string) { s.summary["delta"] = 2 }, "delta 2"},
		"accountant":     {func(s *runFixture, dir string) { s.summary["accountant"] = "mine" }, "mine"},
		"metrics":        {func(s *runFixture, dir string) { s.metrics = "{\"lot\":1}\nrubbish\n" }, "metrics.jsonl: line 2"},
		"no summary": {func(s *runFixture, dir string) {
			if dir != "" {
				os.Remove(filepath.Join(dir, "run.json"))
			}
		}, "run.json"},
		"no ledger": {func(s *runFixture, dir string) {
			if dir != "" {
				os.Remove(filepath.Join(dir, "ledger.jsonl"))
			}
		}, "ledger.jsonl"},
		"damaged ledger": {func(s *runFixture, dir string) {
			if dir == "" {
				return
			}
			path := filepath.Join(dir, "ledger.jsonl")
			text, _ := os.ReadFile(path)
			os.WriteFile(path, []byte(strings.Replace(string(text), `"noise":1.1`, `"noise":9.1`, 1)), 0o644)
		}, "line 2"},
		"summary of another kind": {func(s *runFixture, dir string) {
			if dir != "" {
				os.WriteFile(filepath.Join(dir, "run.json"), []byte("[]"), 0o644)
			}
		}, "run.json"},
		"summary of nothing": {func(s *runFixture, dir string) {
			if dir != "" {
				os.WriteFile(filepath.Join(dir, "run.json"), []byte("null"), 0o644)
			}
		}, "names no model"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture()
			s.lots[0].Count, s.summary["steps"] = 3, 3
			test.change(s, "")
			dir := s.write(t)
			test.change(s, dir)
			_, err := Open(dir)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("want one line with %q, got %v", test.want, err)
			}
			if name == "another ledger" && !errors.Is(err, ErrOtherLedger) {
				t.Errorf("%v is not ErrOtherLedger", err)
			}
		})
	}
}

// The summary keeps the values of run.json under the same keys.
func TestSummary_Keys(t *testing.T) {
	run, err := Open(newFixture().write(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(run.summary)
	if err != nil {
		t.Fatal(err)
	}
	var again map[string]any
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	for key, value := range newFixture().summary {
		if fmt.Sprint(again[key]) != fmt.Sprint(value) {
			t.Errorf("%s: %v was read as %v", key, value, again[key])
		}
	}
}

// For a run that ended before its plan, the page and the card claim the cost of the whole
// plan. A summary that states less than the ledger spent does not lower the claim.
func TestPage_EndedEarly(t *testing.T) {
	spent := number.RoundUp(accounted(t, newFixture()))
	for planned, want := range map[any]string{3.25: "3.25", "Infinity": "∞", 0.01: spent} {
		s := newFixture()
		s.summary["epsilon_planned"], s.summary["steps_planned"] = planned, 2000
		page, card := s.render(t)
		for _, text := range []string{page, card} {
			requireContains(t, "the document", text, "differential privacy with ε = "+want+" and δ", "the guarantee is that of the whole plan: ε = "+want+".", "alone cost ε = "+spent)
		}
	}
}

// accounted returns the ε of the run's ledger.
func accounted(t *testing.T, s *runFixture) float64 {
	t.Helper()
	run, err := Open(s.write(t))
	if err != nil {
		t.Fatal(err)
	}
	return run.accounting.answer.Epsilon
}

// newRegressionFixture is a run that predicts a number.
func newRegressionFixture() *runFixture {
	s := newFixture()
	s.lots[0].Count, s.summary["steps"] = 20, 20
	for _, key := range []string{"confusion", "class_names"} {
		delete(s.summary, key)
	}
	for key, value := range map[string]any{"test_accuracy": nil, "test_labels": 0, "task": "tabular-regression", "target": "hours <b>*",
		"target_bounds": []float64{0, 99}, "test_rmse": 12.3456, "test_mae": 9.8, "test_r2": 0.25} {
		s.summary[key] = value
	}
	s.metrics = `{"lot":10,"test_rmse":15.5,"test_mae":11,"test_r2":0.1}` + "\n" + `{"lot":15,"test_rmse":null}` + "\n" + `{"lot":20,"test_rmse":12.3456}` + "\n"
	return s
}

// For a regression the page and the card show errors in the target's units over ε, and no
// accuracy.
func TestPage_Regression(t *testing.T) {
	page, card := newRegressionFixture().render(t)
	requireContains(t, "the page", page, "12.35", "test RMSE", "of hours &lt;b&gt;*, on public data", ">Errors<", "Values are clipped to its bounds, 0 and 99.", "mean absolute error",
		"<dt>R²</dt><dd>0.25</dd>", "Test RMSE over ε", "<title>15.5 at ε = ", "<title>12.35 at ε = ", "<dt>predicted</dt>")
	if n := strings.Count(page, `class="dot"`); n != 2 {
		t.Errorf("%d dots of two points with an error", n)
	}
	requireContains(t, "the card", card, "type: rmse", "value: 12.3456", "type: mae", "type: r_squared", "type: tabular-regression", "Measured on test data, which the user declares public: the guarantee does not protect", `in the units of hours &lt;b\>\*. Values are clipped`, "| R² | 0.25 |")
	for what, text := range map[string]string{"the page": page, "the card": card} {
		requireLacks(t, what, text, ">Accuracy<", "test accuracy", "| accuracy |", "0.00%", "Confusion matrix", "type: accuracy", "<b>")
	}

	s := newRegressionFixture()
	s.summary["private"] = false
	s.summary["test_r2"], s.metrics = nil, `{"lot":10,"test_rmse":0}`+"\n"
	page, card = s.render(t)
	requireLacks(t, "the page of constant targets", page, "<dt>R²</dt>", "NaN", "Inf")
	requireLacks(t, "the card of constant targets", card, "r_squared", "| R² |")

	s = newRegressionFixture() // its predictions overflowed
	s.summary["private"] = false
	s.summary["test_rmse"], s.summary["test_mae"], s.summary["test_r2"], s.metrics = nil, nil, nil, ""
	page, card = s.render(t)
	requireContains(t, "the page of a diverged model", page, "<dd>not a finite number</dd>", ">Errors<")
	requireLacks(t, "the card of a diverged model", card, "model-index")

	s = newRegressionFixture()
	s.summary["private"] = false
	s.summary["test_rmse"], s.summary["test_examples"], s.metrics = nil, 0, ""
	page, card = s.render(t)
	requireContains(t, "the page without test data", page, "The error on the private data is itself private")
	requireContains(t, "the card without test data", card, "There were no public test data, so the model was not evaluated.")

	s.summary["validation_mae"], s.summary["validation_deviation"], s.summary["validation_records"] = 3.25, 0.125, 40
	page, card = s.render(t)
	requireContains(t, "the page with validation records", page, "There were no public test data. Released instead: mean absolute error on 40 records held out for validation: 3.25 ± 0.12 of noise (ε includes its cost), in the units of hours &lt;b&gt;*, with predictions clipped to its bounds", "<dt>validation mean absolute error</dt>")
	requireContains(t, "the card with validation records", card, `Released instead: mean absolute error on 40 records held out for validation: 3.25 ± 0.12 of noise (ε includes its cost), in the units of hours &lt;b\>\*`)
	for what, text := range map[string]string{"the page": page, "the card": card} {
		requireLacks(t, what+" with validation records", text, "not evaluated", "itself private", "<b>", "validation accuracy")
	}
	s.summary["validation_deviation"] = 0
	page, _ = s.render(t)
	requireLacks(t, "the page of a run without privacy", page, "of noise")

	for key, value := range map[string]any{"test_rmse": -1, "target_bounds": []float64{1}} {
		s := newRegressionFixture()
		s.summary["private"], s.summary[key] = false, value
		if _, err := Open(s.write(t)); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s %v: %v", key, value, err)
		}
	}
}
