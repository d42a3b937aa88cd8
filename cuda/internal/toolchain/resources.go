package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// spilling lists the kernels that may spill registers to memory, with the reason.
var spilling = map[string]string{
	"convolution_weight_128x128": "128 registers let two blocks share a multiprocessor; on sm_80 a thread keeps 16 bytes in memory",
	"round_rows":                 "80 registers let three blocks share a multiprocessor; on sm_120 a thread keeps up to 16 bytes in memory",
}

// usage is a kernel's resource usage on one architecture.
type usage struct{ registers, shared, stack, stores, loads int }

var (
	entry     = regexp.MustCompile(`Compiling entry function '(\w+)'`)
	local     = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	registers = regexp.MustCompile(`Used (\d+) registers`)
	shared    = regexp.MustCompile(`(\d+) bytes smem`)
)

// usages reads the usage of each kernel from a ptxas log. It adds the usage of the
// functions that a kernel calls.
func usages(log string) (map[string]usage, error) {
	all := map[string]usage{}
	var name string
	var u usage
	for line := range strings.Lines(log) {
		if m := entry.FindStringSubmatch(line); m != nil {
			name, u = m[1], usage{}
		} else if m := local.FindStringSubmatch(line); m != nil {
			u.stack += number(m[1])
			u.stores += number(m[2])
			u.loads += number(m[3])
		} else if m := registers.FindStringSubmatch(line); m != nil {
			if name == "" {
				return nil, fmt.Errorf("the ptxas log names no kernel before %q", strings.TrimSpace(line))
			}
			u.registers = number(m[1])
			if m := shared.FindStringSubmatch(line); m != nil {
				u.shared = number(m[1])
			}
			all[name] = u
			name = ""
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the ptxas log names no kernel")
	}
	return all, nil
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits) // a run of digits, from a regular expression
	return n
}

// resources writes the table of the kernels' usage. Spills is an error that names the kernels that
// spill but are not in spilling.
func resources(images []image) (table []byte, spills, err error) {
	var b bytes.Buffer
	b.WriteString("# Resources of each kernel\n\n" +
		"Written by `make cubins` from the ptxas log: registers per thread on each architecture, static shared memory per\n" +
		"block, and local memory per thread if there is any (stack frame, spill stores, spill loads; bytes).\n\n| kernel |")
	rule := "|---|"
	var columns []map[string]usage
	for _, image := range images {
		if image.target.PTX() {
			continue
		}
		used, err := usages(image.log)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", image.target.Architecture, err)
		}
		columns = append(columns, used)
		fmt.Fprintf(&b, " %s |", image.target.Architecture)
		rule += "---:|"
	}
	if len(columns) == 0 {
		return nil, nil, errors.New("a table of resources needs a cubin; the targets have none")
	}
	fmt.Fprintf(&b, " shared | local |\n%s---:|---|\n", rule)
	var unlisted []string
	for _, kernel := range slices.Sorted(maps.Keys(columns[0])) {
		fmt.Fprintf(&b, "| `%s` |", kernel)
		most := 0
		var locals, spilled []string
		for i, column := range columns {
			u, ok := column[kernel]
			if !ok {
				return nil, nil, fmt.Errorf("%s has no kernel %s", images[i].target.Architecture, kernel)
			}
			fmt.Fprintf(&b, " %d |", u.registers)
			most = max(most, u.shared)
			if u.stack+u.stores+u.loads > 0 {
				locals = append(locals, fmt.Sprintf("%s: %d, %d, %d", images[i].target.Architecture, u.stack, u.stores, u.loads))
			}
			if u.stores+u.loads > 0 {
				spilled = append(spilled, images[i].target.Architecture)
			}
		}
		if _, may := spilling[kernel]; len(spilled) > 0 && !may {
			unlisted = append(unlisted, kernel+" on "+strings.Join(spilled, ", "))
		}
		fmt.Fprintf(&b, " %d | %s |\n", most, strings.Join(locals, "; "))
	}
	if len(unlisted) > 0 {
		spills = fmt.Errorf("kernels spill registers: %s; give them fewer registers, or list them in resources.go with the reason",
			strings.Join(unlisted, "; "))
	}
	return b.Bytes(), spills, nil
}
