package report

import (
	"bytes"
	_ "embed"
	"strings"
	"text/template"

	"gopkg.in/yaml.v3"
)

var (
	//go:embed card.md
	cardText     string
	cardTemplate = template.Must(template.New("card").Parse(cardText))
)

// card is what card.md shows. All of it is Markdown already.
type card struct {
	Title, Lede, Statement, Tested, Known, Unit string
	Predicted                                   bool // a number is, and no class
	Warnings                                    []warning
	Facts, Score, Settings, Machine             []row
	Verify, Account                             string
}

// frontMatter is the head of a model card as the Hugging Face Hub reads it
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

// Card is the model card MODEL_CARD.md, in the form that the Hugging Face Hub knows.
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
	c := card{
		Title: markdown(s.Model + " trained on " + s.data()), Lede: markdown(r.lede()),
		Statement: "**There is no privacy guarantee (ε = ∞).** The model was trained without clipping and without noise.",
		Predicted: s.Target != "", Warnings: r.warnings(), Settings: markdownRows(r.settings()), Machine: markdownRows(r.machine()),
	}
	if r.account != nil {
		p := r.privacy()
		c.Statement, c.Facts = markdown(p.Statement), markdownRows(p.Facts)
		c.Unit = markdown(UnitWords(r.account.history.Header.Unit))
		l := r.ledger()
		c.Verify, c.Account = l.Verify, l.Account
	}
	c.Tested, c.Score = r.tests()
	c.Tested, c.Known = markdown(c.Tested), markdown(s.known())
	err := cardTemplate.Execute(&b, c)
	return b.Bytes(), err
}

func (r *Run) frontMatter() frontMatter {
	s := &r.summary
	f := frontMatter{Library: "dptrain", Task: s.Task, Tags: []string{"dptrain"}}
	if r.secure() {
		f.Tags = append(f.Tags, "differential-privacy", "dp-sgd")
	}
	if metrics := r.metrics(); len(metrics) > 0 && s.Task != "" {
		f.Index = []modelIndex{{s.Model, []modelResult{{
			Task:    map[string]string{"type": s.Task},
			Dataset: map[string]string{"name": s.data(), "type": s.data(), "split": "test"},
			Metrics: metrics,
		}}}}
	}
	return f
}

// metrics are what was measured on public test data.
func (r *Run) metrics() (all []modelMetric) {
	s := &r.summary
	add := func(x *float64, kind, name string) {
		if x != nil {
			all = append(all, modelMetric{kind, *x, name + " on public test data"})
		}
	}
	switch {
	case r.regressed():
		add(s.TestRMSE, "rmse", "root mean squared error")
		add(s.TestMAE, "mae", "mean absolute error")
		add(s.TestR2, "r_squared", "R²")
	case r.tested():
		add(&s.TestAccuracy, "accuracy", "accuracy")
	}
	return all
}

// markdown escapes text so that a name is only a name: no markup, no HTML, no line
// of its own.
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
