package report

import (
	"bytes"
	_ "embed"
	"math"
	"strings"
	"text/template"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"gopkg.in/yaml.v3"
)

var (
	//go:embed model_card.md
	cardText     string
	cardTemplate = template.Must(template.New("card").Parse(cardText))
)

// modelCard has the values that model_card.md shows. They are escaped Markdown.
type modelCard struct {
	Title, Summary, Statement, Assumptions, TestNote, Validation, Unit string
	Regression, EndedEarly                                             bool
	Warnings                                                           []warning
	Facts, Score, Settings, Machine                                    []row
	Verify, Account                                                    string
}

// frontMatter is the metadata of a model card that the Hugging Face Hub reads
// (Hub documentation, "Model Cards", section "Model card metadata").
type frontMatter struct {
	Library string       `yaml:"library_name"`
	Task    string       `yaml:"pipeline_tag,omitempty"`
	Tags    []string     `yaml:"tags"`
	Index   []modelIndex `yaml:"model-index,omitempty"`
}

type modelIndex struct {
	Name    string        `yaml:"name"`
	Results []modelResult `yaml:"results"`
}

type modelResult struct {
	Task    map[string]string `yaml:"task"`
	Dataset map[string]string `yaml:"dataset"`
	Metrics []modelMetric     `yaml:"metrics"`
}

type modelMetric struct {
	Type  string  `yaml:"type"`
	Value float64 `yaml:"value"`
	Name  string  `yaml:"name"`
}

// Card writes MODEL_CARD.md, a model card in the format of the Hugging Face Hub.
func (r *Run) Card() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("---\n")
	head := yaml.NewEncoder(&b)
	head.SetIndent(2)
	if err := head.Encode(r.frontMatter()); err != nil {
		return nil, err
	}
	b.WriteString("---\n\n")
	s := &r.summary
	c := modelCard{
		Title: markdown(s.Model + " trained on " + s.dataName()), Summary: markdown(r.summaryLine()),
		Statement:  "**There is no privacy guarantee (ε = ∞).** The model was trained without clipping and without noise.",
		Regression: s.Target != "", EndedEarly: s.PlannedEpsilon > 0, Warnings: r.warnings(),
		Settings: markdownRows(r.settingRows()), Machine: markdownRows(r.machineRows()),
	}
	if r.accounting != nil {
		p := r.privacySection()
		c.Statement, c.Facts, c.Assumptions = markdown(p.Statement), markdownRows(p.Facts), markdown(p.Assumptions)
		c.Unit = markdown(DescribeUnit(r.accounting.history.Header.Unit))
		l := r.accounting.ledgerSection()
		c.Verify, c.Account = l.Verify, l.Account
	}
	c.TestNote, c.Score = r.testScore()
	c.TestNote, c.Validation = markdown(c.TestNote), markdown(s.validationSummary())
	err := cardTemplate.Execute(&b, c)
	return b.Bytes(), err
}

func (r *Run) frontMatter() frontMatter {
	s := &r.summary
	f := frontMatter{Library: "dptrain", Task: s.Task, Tags: []string{"dptrain"}}
	if r.isSecure() {
		f.Tags = append(f.Tags, "differential-privacy", "dp-sgd")
	}
	if metrics := r.metrics(); len(metrics) > 0 && s.Task != "" {
		f.Index = []modelIndex{{s.Model, []modelResult{{
			Task:    map[string]string{"type": s.Task},
			Dataset: map[string]string{"name": s.dataName(), "type": s.dataName(), "split": "test"},
			Metrics: metrics,
		}}}}
	}
	return f
}

// metrics lists the scores on public test data.
func (r *Run) metrics() (all []modelMetric) {
	s := &r.summary
	add := func(x number.Float, kind, name string) {
		if !math.IsNaN(float64(x)) {
			all = append(all, modelMetric{kind, float64(x), name + " on public test data"})
		}
	}
	switch {
	case r.isRegression():
		add(s.RMSE, "rmse", "root mean squared error")
		add(s.RegressionMetrics.MAE, "mae", "mean absolute error")
		add(s.R2, "r_squared", "R²")
	case r.hasTestScore():
		add(s.TestAccuracy, "accuracy", "accuracy")
	}
	return all
}

// markdown escapes text, so that a name cannot add markup, HTML or line breaks.
func markdown(text string) string {
	var b strings.Builder
	for _, r := range strings.Join(strings.Fields(text), " ") {
		switch {
		case r == '<':
			b.WriteString("&lt;")
			continue
		case r == '&':
			b.WriteString("&amp;")
			continue
		case strings.ContainsRune("\\`*_{}[]#|>~!", r):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func markdownRows(rows []row) []row {
	escaped := make([]row, len(rows))
	for i, r := range rows {
		escaped[i] = row{r.Name, markdown(r.Value)}
	}
	return escaped
}
