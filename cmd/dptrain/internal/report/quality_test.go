package report

import (
	"math"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/quality"
)

// withMeasures adds what run.json contains about predictions on public test data.
func withMeasures(s *runFixture) *runFixture {
	tpr := make([]float64, len(quality.FalsePositiveRates))
	for i, rate := range quality.FalsePositiveRates {
		tpr[i] = math.Sqrt(rate)
	}
	s.summary["private"] = false // a report without accounting takes less time
	s.summary["baseline"] = 0.53
	s.summary["calibration"] = []map[string]any{{"examples": 40, "predicted": 0.05, "observed": 0.1}, {"examples": 60, "predicted": 0.9, "observed": 0.95}}
	s.summary["roc"] = map[string]any{"examples": 100, "classes": []map[string]any{{"class": 1, "auc": 0.875, "tpr": tpr}}}
	s.summary["columns"] = []map[string]any{
		{"name": "pet", "use": "label", "words": []string{"cat", "dog"}, "count": 2}, {"name": "age", "use": "number", "bounds": []float64{0, 120}},
		{"name": "job", "use": "words", "words": []string{"baker", "tailor"}, "count": 30}, {"name": "id", "use": "ignored"},
	}
	s.summary["test_data"] = "/home/anna/more.csv"
	s.summary["linear"] = map[string]any{
		"weights": []map[string]any{{"feature": "job = baker", "value": -1.5}, {"feature": "age", "value": 0.25}},
		"noise":   map[string]any{"all": 0.25, "last": 0.01},
	}
	return s
}

// The page shows the baseline, the calibration, the ROC curve, the columns and the weights with their
// noise.
func TestPage_Measures(t *testing.T) {
	s := withMeasures(newShortFixture())
	page, card := s.render(t)
	requireContains(t, "the page", page, "on public data; always one class: 53.00%", "<dt>baseline</dt><dd>53.00%</dd>", "always predicting the most frequent class of the test data",
		`aria-labelledby="calibration-name calibration-about"`, "The mean difference from the dashed line is 5.00%.", "observed 95.00% of 60 examples", "ROC curve of the class dog from 100 test examples", "dog: area 0.875",
		"<dt>pet</dt><dd>predicted, 2 classes: cat, dog</dd>", "<dt>age</dt><dd>a number from 0 to 120</dd>", "<dt>job</dt><dd>30 words: baker, tailor and 28 more</dd>", "<dt>id</dt><dd>not read</dd>",
		"<dt>test data</dt><dd>more.csv, public, 100 examples</dd>", "log-odds of dog", "a standard deviation of 0.25: the noise of all 3 lots together", "the last lot alone moves it by 0.01",
		`<th scope="row">job = baker</th><td class="number">−1.50</td>`, `<tr class="noise"><th scope="row">age</th>`)
	requireLacks(t, "the page", page, "anna", "at most about", `<tr class="noise"><th scope="row">job`)
	requireContains(t, "the card", card, "| baseline | 53.00% |")

	s = withMeasures(newShortFixture())
	linear := s.summary["linear"].(map[string]any)
	linear["noise"] = map[string]any{"all": 0.25, "last": 0.01, "bound": true}
	page, _ = s.render(t)
	requireContains(t, "the page", page, "a standard deviation of at most about 0.25")
	delete(linear, "noise")
	linear["noise_unknown"] = "records have weights"
	page, _ = s.render(t)
	requireContains(t, "the page", page, "The noise in a weight is not shown: records have weights.")
	requireLacks(t, "the page", page, `class="whisker"`, `<tr class="noise">`)
}

// Without test data the page states which parts are absent, and why.
func TestPage_WithoutTestDataStatesWhatIsAbsent(t *testing.T) {
	for _, validation := range []bool{false, true} {
		s := newShortFixture()
		for _, key := range []string{"test_accuracy", "test_loss", "test_examples", "test_labels", "confusion"} {
			delete(s.summary, key)
		}
		if validation {
			s.summary["validation_accuracy"], s.summary["validation_deviation"], s.summary["validation_records"] = 0.8, 0.01, 100
		}
		page, _ := s.render(t)
		requireContains(t, "the page", page, "The baseline, the confusion matrix, calibration and ROC curves are absent, because they need public test data with labels", "none: nothing on this page was measured on public data")
		requireLacks(t, "the page", page, "calibration-about", "always one class")
	}
	s := newRegressionFixture()
	s.summary["private"], s.summary["test_rmse"], s.summary["test_examples"], s.metrics = false, nil, 0, ""
	page, _ := s.render(t)
	requireContains(t, "the page", page, "The baseline and the residuals are absent, because they need public test data:")
}

// A regression has a residual plot with a dot for each point, the baseline, and signed axes.
func TestPage_Residuals(t *testing.T) {
	s := newRegressionFixture()
	s.summary["private"], s.summary["baseline"] = false, 15.25
	s.summary["residuals"] = map[string]any{"examples": 900, "points": [][2]float64{{-10, 20}, {0, -5}, {30, 31}}}
	page, card := s.render(t)
	requireContains(t, "the page", page, "always the mean: 15.25", "<dt>baseline</dt><dd>15.25</dd>", "prediction of hours &lt;b&gt;*", "true value − prediction", "3 of 900 examples are drawn", ">−10<")
	requireContains(t, "the card", card, "| baseline | 15.25 |")
	_, path, _ := strings.Cut(page, `class="line points" d="`)
	path, _, _ = strings.Cut(path, `"`)
	if strings.Count(path, "M") != 3 {
		t.Errorf("points: %s", path)
	}
	for _, points := range [][][2]float64{{{1, 1}, {1, 1}}, {{1e308, -1e308}, {-1e308, 1}}, {}} {
		s.summary["residuals"] = map[string]any{"examples": 2, "points": points}
		page, _ = s.render(t)
		requireLacks(t, "the page", page, "NaN", "Inf")
	}
}

// Many classes: the page draws the classes with the smallest area, and their average.
func TestPage_ManyCurves(t *testing.T) {
	s := withMeasures(newShortFixture())
	one := s.summary["roc"].(map[string]any)["classes"].([]map[string]any)[0]
	var classes []map[string]any
	for i := range 20 {
		c := map[string]any{"class": i, "auc": 0.5 + float64(i)/100}
		if i < maxCurves {
			c["tpr"] = one["tpr"]
		}
		classes = append(classes, c)
	}
	s.summary["roc"] = map[string]any{"examples": 100, "average": one, "classes": classes}
	page, _ := s.render(t)
	requireContains(t, "the page", page, "Of 20 classes, the 5 with the smallest area are drawn", "cat: area 0.500", "4: area 0.540", "average: area 0.875")
	requireLacks(t, "the page", page, "5: area")
}

// Measures that cannot be drawn are refused with their key.
func TestOpen_RefusesWrongMeasures(t *testing.T) {
	for want, change := range map[string]any{
		"calibration": []map[string]any{{"examples": 1, "predicted": 1.5, "observed": 0}},
		"roc":         map[string]any{"examples": 1, "classes": []map[string]any{{"class": 1, "auc": 0.5, "tpr": []float64{1}}}},
	} {
		s := newShortFixture()
		s.summary[want] = change
		if _, err := Open(s.write(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// The interval of Wilson: for 8 of 10, from 0.490 to 0.943 (Newcombe 1998, table I has 81 of 263 from
// 0.2553 to 0.3662).
func TestWilson_PublishedValues(t *testing.T) {
	for _, c := range []struct {
		share     float64
		n         int
		low, high float64
	}{{0.8, 10, 0.490, 0.943}, {81.0 / 263, 263, 0.2553, 0.3662}, {0, 20, 0, 0.1611}} {
		if low, high := wilson(c.share, c.n); math.Abs(low-c.low) > 5e-4 || math.Abs(high-c.high) > 5e-4 {
			t.Errorf("%v of %d: %v to %v, want %v to %v", c.share, c.n, low, high, c.low, c.high)
		}
	}
}
