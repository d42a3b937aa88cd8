//go:build gpu

package kernels

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// needs are the resources of a kernel launch, from its cubin.
type needs struct{ registers, threads, shared, arguments int }

// needed reads a cubin, which has a section of attributes for each kernel, and a common
// section with their register counts.
func needed(image []byte) (map[string]needs, error) {
	image = bytes.Clone(image)
	binary.LittleEndian.PutUint32(image[20:], uint32(elf.EV_CURRENT)) // cubins up to 9.0 count otherwise
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, err
	}
	symbols, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	all, shared := map[string]needs{}, map[string]int{}
	registers := map[string]int{}
	for _, s := range f.Sections {
		if kernel, ok := strings.CutPrefix(s.Name, ".nv.shared."); ok {
			shared[kernel] = int(s.Size)
		}
		if !strings.HasPrefix(s.Name, ".nv.info") {
			continue
		}
		content, err := s.Data()
		if err != nil {
			return nil, err
		}
		var n needs
		for at := 0; at+4 <= len(content); {
			format, attribute, value := content[at], content[at+1], int(binary.LittleEndian.Uint16(content[at+2:]))
			at += 4
			word := func(i int) int { return int(binary.LittleEndian.Uint32(content[at+4*i:])) }
			switch {
			case format == 3 && attribute == 0x19: // EIATTR_CBANK_PARAM_SIZE
				n.arguments = value
			case format == 4 && attribute == 0x05: // EIATTR_MAX_THREADS
				n.threads = word(0) * word(1) * word(2)
			case format == 4 && attribute == 0x2f: // EIATTR_REGCOUNT
				registers[symbols[word(0)-1].Name] = word(1)
			}
			if format == 4 {
				at += value
			}
		}
		if kernel, ok := strings.CutPrefix(s.Name, ".nv.info."); ok {
			all[kernel] = n
		}
	}
	for kernel, n := range all {
		n.registers, n.shared = registers[kernel], shared[kernel]
		all[kernel] = n
	}
	return all, nil
}

// resources is the table of RESOURCES.md: of each kernel the numbers by column.
func resources(t *testing.T) map[string]map[string]int {
	text, err := os.ReadFile("RESOURCES.md")
	if err != nil {
		t.Skip("RESOURCES.md is missing")
	}
	table := map[string]map[string]int{}
	var columns []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		name := strings.Trim(cells[1], " `")
		if name == "kernel" {
			columns = cells
			continue
		}
		table[name] = map[string]int{}
		for i, c := range cells {
			if n, err := strconv.Atoi(strings.TrimSpace(c)); err == nil {
				table[name][strings.TrimSpace(columns[i])] = n
			}
		}
	}
	return table
}

// compiled returns an image of the program, nil if it has none, or one for the emulated device, which
// contains no code.
func compiled(t *testing.T, name string) []byte {
	t.Helper()
	content, err := archive()
	if err != nil {
		return nil
	}
	image, err := ReadImage(content, name)
	if err != nil && !errors.Is(err, errNoImage) {
		t.Fatal(err)
	}
	if len(image) < 1000 {
		return nil
	}
	return image
}

// Every kernel can be launched with as many threads as it is compiled for: a
// multiprocessor has 65536 registers, allocated in units of eight per thread; a block has
// at most 48 KiB of static shared memory, and a kernel 4096 bytes of arguments. All images
// of the program have the same kernels with the same arguments, and RESOURCES.md matches them.
func TestKernels_AreLaunchable(t *testing.T) {
	table := resources(t)
	var first map[string]needs
	for _, target := range slices.Backward(Targets) {
		image := compiled(t, target.Image())
		if target.PTX() || image == nil {
			continue
		}
		arch := target.Capability()
		all, err := needed(image)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = all
			var entries []string
			for _, m := range regexp.MustCompile(`\.entry (\w+)\(`).FindAllSubmatch(compiled(t, "compute_90.ptx"), -1) {
				entries = append(entries, string(m[1]))
			}
			slices.Sort(entries)
			if want := slices.Sorted(maps.Keys(all)); entries != nil && !slices.Equal(entries, want) || len(want) < 100 {
				t.Errorf("the PTX has the kernels %v, sm_%d %v", entries, arch, want)
			}
		}
		if len(all) != len(first) {
			t.Errorf("sm_%d has %d kernels, another %d", arch, len(all), len(first))
		}
		for kernel, n := range all {
			if row := table[kernel]; row[fmt.Sprint("sm_", arch)] != n.registers {
				t.Errorf("sm_%d: %s takes %+v, and RESOURCES.md has %v", arch, kernel, n, row)
			}
			threads := n.threads
			if threads == 0 {
				threads = 1024
			}
			given := (n.registers + 7) / 8 * 8 * threads
			if n.registers < 1 || n.registers > 255 || given > 65536 || threads%32 != 0 || threads > 1024 {
				t.Errorf("sm_%d: %s takes %d registers of each of %d threads", arch, kernel, n.registers, threads)
			}
			if n.shared > 48<<10 || n.arguments > 4096 || n.arguments == 0 || n.arguments != first[kernel].arguments {
				t.Errorf("sm_%d: %s takes %d bytes of shared memory, %d of arguments and elsewhere %d",
					arch, kernel, n.shared, n.arguments, first[kernel].arguments)
			}
			if n.threads != first[kernel].threads {
				t.Errorf("sm_%d: %s has blocks of at most %d threads, elsewhere %d", arch, kernel, n.threads, first[kernel].threads)
			}
		}
	}
	if first == nil {
		t.Skip("this program contains no cubin")
	}
}
