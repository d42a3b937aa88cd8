package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Dimensions of the chart in SVG units.
const (
	chartWidth = 860.0
	chartLeft  = 140.0 // start of the axis, after the workload names
	chartRight = 740.0 // end of the axis, before the names of the peers
	chartTop   = 84.0
	rowHeight  = 30.0
)

// chart returns an SVG with one row of marks per workload. A mark is the time of a program divided by
// that of PyTorch's ordinary step, on a logarithmic axis, for the first precision measured.
func (r results) chart() string {
	var s strings.Builder
	precision := r.distinct(func(m measurement) string { return m.Precision })[0]
	r = r.withPrecision(precision)
	workloads := r.distinct(func(m measurement) string { return m.Workload })
	marks := map[string][]mark{}
	low, high := 0.5, 2.0
	for _, w := range workloads {
		marks[w] = r.marks(w)
		for _, m := range marks[w] {
			low, high = min(low, m.times), max(high, m.times)
		}
	}
	low, high = math.Pow(2, math.Floor(math.Log2(low))), math.Pow(2, math.Ceil(math.Log2(high)))
	at := func(times float64) float64 {
		return chartLeft + (chartRight-chartLeft)*math.Log(times/low)/math.Log(high/low)
	}
	bottom := chartTop + rowHeight*float64(len(workloads))
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="system-ui, sans-serif" font-size="13">`+"\n", chartWidth, bottom+50)
	fmt.Fprintf(&s, "<title>Time of a training step, as a multiple of PyTorch's ordinary one</title>\n")
	fmt.Fprintf(&s, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	text := func(x, y float64, anchor, colour, words string) {
		fmt.Fprintf(&s, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, colour, html.EscapeString(words))
	}
	host := r.Machine.CPU + fmt.Sprintf(", %d threads", r.Machine.Threads)
	if r.Machine.GPU != "" {
		host = r.Machine.GPU + ", " + precision
	}
	fmt.Fprintf(&s, `<text x="16" y="26" font-size="16" font-weight="600" fill="#1a1a1a">Time of a training step ÷ PyTorch's ordinary, not private one</text>`+"\n")
	x := 16.0
	for _, k := range []struct{ kind, words string }{{"ours", "dptrain, private"}, {"plain", "dptrain, not private"}, {"peer", "fastest private peer"}, {"jax", "JAX, not private"}} {
		fmt.Fprint(&s, symbol(k.kind, x+6, 46))
		text(x+18, 50.5, "start", "#333", k.words)
		x += 40 + 6.6*float64(len(k.words))
	}
	text(chartWidth-16, bottom+38, "end", "#777", host+", "+r.Date)
	for times := low; times <= high*1.001; times *= 2 {
		colour, width := "#e6e6e6", 1.0
		if times == 1 {
			colour, width = "#555", 1.5
		}
		fmt.Fprintf(&s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"/>`+"\n", at(times), chartTop-12, at(times), bottom, colour, width)
		text(at(times), bottom+20, "middle", "#555", fmt.Sprintf("%g", times))
	}
	text(at(1), chartTop-16, "middle", "#555", "PyTorch, not private")
	for i, w := range workloads {
		y := chartTop + rowHeight*(float64(i)+0.5)
		text(chartLeft-14, y+4.5, "end", "#1a1a1a", w)
		for _, m := range marks[w] {
			fmt.Fprint(&s, symbol(m.kind, at(m.times), y))
			if m.kind == "peer" {
				text(chartRight+16, y+4.5, "start", "#c2571a", m.name)
			}
		}
	}
	fmt.Fprintln(&s, "</svg>")
	return s.String()
}

// mark is the time of a program divided by that of PyTorch's ordinary step.
type mark struct {
	kind, name string
	times      float64
}

func (r results) marks(workload string) (list []mark) {
	base, ok := r.baseline(workload)
	if !ok {
		return nil
	}
	add := func(kind string, m measurement) { list = append(list, mark{kind, m.Program, m.Median / base.Median}) }
	if m, ok := r.best(workload, "JAX"); ok {
		add("jax", m)
	}
	if m, ok := r.bestPeer(workload); ok {
		add("peer", m)
	}
	if m, ok := r.best(workload, "dptrain plain"); ok {
		add("plain", m)
	}
	if m, ok := r.best(workload, "dptrain"); ok {
		add("ours", m)
	}
	return list
}

// symbol returns a mark. Its shape identifies the kind without colour.
func symbol(kind string, x, y float64) string {
	switch kind {
	case "ours":
		return fmt.Sprintf(`<circle cx="%.1f" cy="%.1f" r="6" fill="#0b6e4f"/>`+"\n", x, y)
	case "plain":
		return fmt.Sprintf(`<circle cx="%.1f" cy="%.1f" r="5.2" fill="#fff" stroke="#0b6e4f" stroke-width="1.6"/>`+"\n", x, y)
	case "jax":
		return fmt.Sprintf(`<path d="M%.1f %.1fv10m-5 -5h10" stroke="#777" stroke-width="1.8"/>`+"\n", x, y-5)
	}
	return fmt.Sprintf(`<path d="M%.1f %.1fl6.5 6.5l-6.5 6.5l-6.5 -6.5z" fill="#c2571a"/>`+"\n", x, y-6.5)
}
