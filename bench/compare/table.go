package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/bench"
)

// markdown returns the results as Markdown tables.
func (r results) markdown() string {
	var s strings.Builder
	m := r.Machine
	if m.GPU != "" {
		fmt.Fprintf(&s, "# One training step on a GPU\n\n%s; host %s, %s. %s.\n\n", m.GPU, m.CPU, m.System, r.Date)
		for _, name := range slices.Sorted(maps.Keys(r.Checks)) {
			fmt.Fprintf(&s, "- %s: %s\n", name, r.Checks[name])
		}
		fmt.Fprintln(&s)
	} else {
		fmt.Fprintf(&s, "# One training step on CPU\n\n")
		fmt.Fprintf(&s, "%s, %d processors, %.0f GB, %s; %d threads, %s; peak %.0f GFLOP/s (fused multiply-adds in registers, same run). %s.\n\n",
			m.CPU, m.Processors, m.Memory/1e3, m.System, m.Threads, m.Instructions, m.Peak, r.Date)
	}
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		versions = append(versions, name+" "+strings.TrimPrefix(r.Versions[name], "go"))
	}
	fmt.Fprintf(&s, "Versions: %s.\n\n", strings.Join(versions, ", "))
	fmt.Fprintf(&s, "Milliseconds per step: median over %v s after a warm-up; the batch is in memory. ", r.Seconds)
	fmt.Fprintf(&s, "If a program was timed with several microbatch sizes, the table shows the fastest; /16 and /1 mark microbatches of 16 and 1 records")
	if m.GPU == "" {
		fmt.Fprintf(&s, "; dptrain and PyTorch were timed before and after the others, and the table shows the better median")
	}
	fmt.Fprintf(&s, ". Written by `go run ./bench/compare`.\n\n")
	precisions := r.distinct(func(m measurement) string { return m.Precision })
	for _, precision := range precisions {
		part := r.withPrecision(precision)
		if len(precisions) > 1 {
			fmt.Fprintf(&s, "\n## Products in %s\n\n", precision)
		}
		part.table(&s, func(m measurement) float64 { return m.Median }, part.ratioCells)
		fmt.Fprintf(&s, "\n### Peak memory of the process, or on the GPU, MB\n\n")
		part.table(&s, func(m measurement) float64 { return m.Memory }, nil)
		part.variantTable(&s)
	}
	r.writeErrors(&s)
	return s.String()
}

// withPrecision returns the results of one precision.
func (r results) withPrecision(precision string) results {
	var list []measurement
	for _, m := range r.Measurements {
		if m.Precision == precision {
			list = append(list, m)
		}
	}
	r.Measurements = list
	return r
}

// table writes a row for each workload and a column for each program. more returns additional columns.
func (r results) table(s *strings.Builder, value func(measurement) float64, more func(workload string) []string) {
	header := []string{"workload"}
	for _, p := range r.programs() {
		name := p.name
		if !p.private {
			name += ", not private"
		}
		header = append(header, name)
	}
	if more != nil {
		header = append(header, "ours ÷ PyTorch", "ours ÷ ours plain", "best private peer ÷ ours", "GFLOP/s", "of peak")
	}
	row := func(cells []string) { fmt.Fprintf(s, "| %s |\n", strings.Join(cells, " | ")) }
	row(header)
	fmt.Fprintf(s, "|---%s\n", strings.Repeat("|---:", len(header)-1)+"|")
	for _, workload := range r.distinct(func(m measurement) string { return m.Workload }) {
		cells := []string{workload}
		for _, p := range r.programs() {
			m, ok := r.best(workload, p.name)
			if !ok {
				cells = append(cells, "–")
				continue
			}
			cell := threeDigits(value(m))
			if m.Records > 0 {
				cell += fmt.Sprintf(" /%d", m.Records)
			}
			cells = append(cells, cell)
		}
		if more != nil {
			cells = append(cells, more(workload)...)
		}
		row(cells)
	}
}

// ratioCells returns the ratios of dptrain to the other programs for a workload.
func (r results) ratioCells(workload string) []string {
	ours, ok := r.best(workload, "dptrain")
	if !ok {
		return []string{"–", "–", "–", "–", "–"}
	}
	over := func(m measurement, ok bool) string {
		if !ok {
			return "–"
		}
		return fmt.Sprintf("%.2f", ours.Median/m.Median)
	}
	ahead, share := "–", "–"
	if peer, ok := r.bestPeer(workload); ok {
		ahead = fmt.Sprintf("%.1f", peer.Median/ours.Median)
	}
	if ours.Peak > 0 {
		share = fmt.Sprintf("%.0f%%", 100*ours.Rate/ours.Peak)
	}
	return []string{over(r.baseline(workload)), over(r.best(workload, "dptrain plain")), ahead, fmt.Sprintf("%.0f", ours.Rate), share}
}

// variantTable writes the times of the variants and their ratios to the program dptrain, if any was
// measured.
func (r results) variantTable(s *strings.Builder) {
	if !slices.ContainsFunc(r.Measurements, func(m measurement) bool { return isVariant(m.Program) && m.Error == "" }) {
		return
	}
	fmt.Fprintf(s, "\n### Variants of dptrain's private step, ms (÷ dptrain)\n\n| workload | dptrain |")
	for _, p := range variants {
		fmt.Fprintf(s, " %s |", strings.TrimPrefix(p.name, "dptrain, "))
	}
	fmt.Fprintf(s, "\n|---%s|\n", strings.Repeat("|---:", 1+len(variants)))
	for _, workload := range r.distinct(func(m measurement) string { return m.Workload }) {
		ours, ok := r.best(workload, "dptrain")
		if !ok {
			continue
		}
		fmt.Fprintf(s, "| %s | %s |", workload, threeDigits(ours.Median))
		for _, p := range variants {
			if m, ok := r.best(workload, p.name); ok {
				fmt.Fprintf(s, " %s (%.2f) |", threeDigits(m.Median), m.Median/ours.Median)
			} else {
				fmt.Fprintf(s, " – |")
			}
		}
		fmt.Fprintln(s)
	}
}

func isVariant(name string) bool {
	return slices.ContainsFunc(variants, func(p program) bool { return p.name == name })
}

// writeRatios writes a line for each selected workload and precision with variants: their times divided
// by that of dptrain, and the fastest that computes the same.
func (r results) writeRatios(w io.Writer, workloads *regexp.Regexp) {
	for _, precision := range r.distinct(func(m measurement) string { return m.Precision }) {
		part := r.withPrecision(precision)
		for _, workload := range part.distinct(func(m measurement) string { return m.Workload }) {
			fastest, ok := part.best(workload, "dptrain")
			ours, ratios := fastest, ""
			for _, p := range variants {
				if m, measured := part.best(workload, p.name); measured && ok {
					ratios += fmt.Sprintf(", %s %.2f", strings.TrimPrefix(p.name, "dptrain, "), m.Median/ours.Median)
					if p.step == bench.Private && m.Median < fastest.Median {
						fastest = m
					}
				}
			}
			if ratios != "" && workloads.MatchString(workload) {
				fmt.Fprintf(w, "%s %s: ÷ dptrain%s; fastest: %s\n", workload, precision, ratios, fastest.Program)
			}
		}
	}
}

// best returns the fastest measurement of a program on a workload.
func (r results) best(workload, program string) (best measurement, ok bool) {
	for _, m := range r.Measurements {
		if m.Workload == workload && m.Program == program && m.Error == "" && (!ok || m.Median < best.Median) {
			best, ok = m, true
		}
	}
	return best, ok
}

// baseline returns PyTorch's step without privacy: the compiled one if it was measured and is faster.
func (r results) baseline(workload string) (measurement, bool) {
	eager, ok := r.best(workload, "PyTorch")
	if m, there := r.best(workload, compiled.name); there && (!ok || m.Median < eager.Median) {
		return m, true
	}
	return eager, ok
}

// bestPeer returns the fastest private step of the peers.
func (r results) bestPeer(workload string) (best measurement, ok bool) {
	for _, p := range r.programs() {
		if m, there := r.best(workload, p.name); there && p.private && p.script != "" && (!ok || m.Median < best.Median) {
			best, ok = m, true
		}
	}
	return best, ok
}

// distinct returns the values of a field in the order of the measurements, without repetitions.
func (r results) distinct(field func(measurement) string) []string {
	var list []string
	for _, m := range r.Measurements {
		if !slices.Contains(list, field(m)) {
			list = append(list, field(m))
		}
	}
	return list
}

// threeDigits formats a number with three significant digits.
func threeDigits(x float64) string {
	switch {
	case x >= 99.95:
		return fmt.Sprintf("%.0f", x)
	case x >= 9.995:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// writeErrors lists the failed measurements.
func (r results) writeErrors(s *strings.Builder) {
	title := "\n## Not measured\n\n"
	for _, m := range r.Measurements {
		if m.Error != "" {
			name := m.Workload
			if r.Machine.GPU != "" {
				name += " in " + m.Precision
			}
			fmt.Fprintf(s, "%s- %s, %s, microbatch %d: %s\n", title, name, m.Program, m.Records, m.Error)
			title = ""
		}
	}
}
