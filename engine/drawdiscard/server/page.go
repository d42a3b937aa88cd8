package server

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// pageModel is a model on the page at /.
type pageModel struct {
	Name, Model string
	Facts       [][2]string
	Panels      []panel
}

// panel is a chart of one quantity over time.
type panel struct {
	Title, Last string
	Path        string
	Dashed      string // the path of a reference; may be empty
	Low, High   string
	From        string // the time of the first sample
}

const (
	panelWidth  = 320.0
	panelHeight = 120.0
)

// newPanel draws values over time. NaN are left out.
func newPanel(title string, samples []sample, format func(float64) string, value, reference func(sample) float64) (panel, bool) {
	low, high, last := math.Inf(1), math.Inf(-1), math.NaN()
	for _, s := range samples {
		for _, of := range []func(sample) float64{value, reference} {
			if of == nil {
				continue
			}
			if v := of(s); !math.IsNaN(v) {
				low, high = min(low, v), max(high, v)
			}
		}
		if v := value(s); !math.IsNaN(v) {
			last = v
		}
	}
	if math.IsNaN(last) {
		return panel{}, false
	}
	if high == low {
		high = low + 1
	}
	first, span := samples[0].time, samples[len(samples)-1].time.Sub(samples[0].time).Seconds()
	path := func(of func(sample) float64) string {
		var b strings.Builder
		command := "M"
		for _, s := range samples {
			v := of(s)
			if math.IsNaN(v) {
				continue
			}
			x := panelWidth
			if span > 0 {
				x *= s.time.Sub(first).Seconds() / span
			}
			fmt.Fprintf(&b, "%s%.1f %.1f", command, x, panelHeight*(high-v)/(high-low))
			command = "L"
		}
		return b.String()
	}
	p := panel{Title: title, Last: format(last), Path: path(value), Low: format(low), High: format(high), From: first.UTC().Format("2006-01-02 15:04 UTC")}
	if reference != nil {
		p.Dashed = path(reference)
	}
	return p, true
}

// describe returns the model as the page shows it.
func (m *Model) describeOnPage() pageModel {
	d, samples := m.description, m.history.list()
	page := pageModel{Name: d.Name, Model: d.Model}
	s := d.Settings
	rate := m.rates.At(m.updates.Load())
	page.Facts = [][2]string{
		{"weights", strconv.Itoa(m.mechanism.Weights())},
		{"instances", strconv.Itoa(d.Instances)},
		{"noise of a contribution", fmt.Sprintf("%s, ε = %v, δ = %v, level %s", s.Distribution, s.Epsilon, s.Delta, s.Level)},
		{"learning rate", strings.TrimSuffix(fmt.Sprintf("%.4g; %s", rate, d.Schedule), "; ")},
		{"draws since the start", strconv.FormatUint(m.draws.Load(), 10)},
	}
	for _, p := range problems {
		if n := m.rejects[p.name].Load(); n > 0 {
			page.Facts = append(page.Facts, [2]string{"rejected: " + p.name, strconv.FormatUint(n, 10)})
		}
	}
	count := func(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	percent := func(v float64) string { return fmt.Sprintf("%.2f%%", 100*v) }
	quality := percent
	if m.qualityName() == "rmse" {
		quality = number
	}
	for _, c := range []struct {
		title            string
		format           func(float64) string
		value, reference func(sample) float64
	}{
		{m.qualityName() + " on public test data", quality, func(s sample) float64 { return s.quality }, nil},
		{"updates", count, func(s sample) float64 { return float64(s.updates) }, nil},
		{"rejected requests", count, func(s sample) float64 { return float64(s.rejects) }, nil},
		{"spread among the instances (dashed: of noise alone)", number, func(s sample) float64 { return s.spread }, func(s sample) float64 { return s.stationary }},
	} {
		if p, ok := newPanel(c.title, samples, c.format, c.value, c.reference); ok {
			page.Panels = append(page.Panels, p)
		}
	}
	return page
}

// writePage writes the page about all models. It loads nothing else, and runs no script.
func (s *Server) writePage(w http.ResponseWriter) {
	text := s.page.get(time.Second, func() string {
		all := make([]pageModel, len(s.names))
		for i, name := range s.names {
			all[i] = s.models[name].describeOnPage()
		}
		var b strings.Builder
		if err := pageTemplate.Execute(&b, all); err != nil { // a fault of the template, which a test would find
			return ""
		}
		return b.String()
	})
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	w.Write([]byte(text))
}
