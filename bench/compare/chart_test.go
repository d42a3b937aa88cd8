package main

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
)

// The chart is well-formed XML for all names, the axis covers every mark, and a step as long as
// PyTorch's is at 1.
func TestChart_MarksAndEscaping(t *testing.T) {
	r := results{Machine: machine{CPU: `A<B> & "C"`, Threads: 2}, Date: "2026-01-02"}
	for program, median := range map[string]float64{"PyTorch": 2, "dptrain": 1, "dptrain plain": 2, "JAX": 40, "Opacus ghost": 9, "torch.func": 8} {
		r.add(measurement{Workload: "one", Program: program, Median: median})
	}
	r.add(measurement{Workload: "two", Program: "dptrain", Median: 1}) // nothing to hold it against
	text := r.chart()
	circles := map[string]string{}
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		e, ok := token.(xml.StartElement)
		if !ok || e.Name.Local != "circle" {
			continue
		}
		at := map[string]string{}
		for _, a := range e.Attr {
			at[a.Name.Local] = a.Value
		}
		if at["cy"] != "46.0" { // the legend's
			circles[at["fill"]] = at["cx"]
		}
	}
	// The axis goes from 1/2 to 32: six doublings of 100 units.
	if len(circles) != 2 || circles["#0b6e4f"] != "140.0" || circles["#fff"] != "240.0" {
		t.Errorf("circles at %v", circles)
	}
	for _, want := range []string{">torch.func<", ">32<", ">0.5<", "A&lt;B&gt;", ">two<"} {
		if !strings.Contains(text, want) {
			t.Errorf("the chart does not contain %s", want)
		}
	}
}

// The tables use the faster of two timings and the faster of PyTorch's two programs.
func TestRatioCells_FasterTiming(t *testing.T) {
	r := results{Machine: machine{GPU: "a card"}}
	for _, m := range []measurement{
		{Program: "dptrain", Median: 3, Rate: 50, Peak: 100}, {Program: "dptrain", Median: 2, Rate: 75, Peak: 100},
		{Program: "dptrain plain", Median: 1.6}, {Program: "PyTorch", Median: 5}, {Program: "PyTorch compiled", Median: 4},
		{Program: "JAX", Median: 1}, {Program: "Opacus hooks", Median: 30, Private: true}, {Program: "torch.func", Median: 20, Private: true},
		{Program: "jax-privacy", Error: "not done"},
	} {
		m.Workload = "one"
		r.add(m)
	}
	if got, want := strings.Join(r.ratioCells("one"), " "), "0.50 1.25 10.0 75 75%"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := strings.Join(r.ratioCells("another"), " "); got != "– – – – –" {
		t.Errorf("unknown workload: %s", got)
	}
}
