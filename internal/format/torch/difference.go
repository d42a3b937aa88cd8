package torch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/internal/format/safetensors"
)

// mismatch lists the differences between a file and a layout.
type mismatch struct {
	matched                         int
	missing, unexpected, wrongShape []string
}

func (d mismatch) count() int { return len(d.missing) + len(d.unexpected) + len(d.wrongShape) }

// compareTensors compares the tensors that a layout requires with those of a file.
func compareTensors(want []mapping, file []safetensors.Tensor) mismatch {
	var d mismatch
	shapes := map[string][]int{}
	for _, t := range file {
		shapes[t.Name] = t.Shape
	}
	for _, e := range want {
		shape, ok := shapes[e.name]
		delete(shapes, e.name)
		switch {
		case !ok:
			d.missing = append(d.missing, e.name)
		case !slices.Equal(shape, e.shape):
			d.wrongShape = append(d.wrongShape, fmt.Sprintf("%s %v instead of %v", e.name, shape, e.shape))
		default:
			d.matched++
		}
	}
	for _, t := range file {
		if _, left := shapes[t.Name]; left {
			d.unexpected = append(d.unexpected, t.Name)
		}
	}
	return d
}

// maxNamesShown is the largest number of tensor names that a message lists for one kind of mismatch.
const maxNamesShown = 8

func (d mismatch) String() string {
	parts := []string{fmt.Sprintf("%d match", d.matched)}
	for _, p := range []struct {
		what  string
		names []string
	}{{"missing", d.missing}, {"not in the network", d.unexpected}, {"wrong shape", d.wrongShape}} {
		if len(p.names) == 0 {
			continue
		}
		named := strings.Join(p.names[:min(maxNamesShown, len(p.names))], ", ")
		if more := len(p.names) - maxNamesShown; more > 0 {
			named += fmt.Sprintf(" and %d more", more)
		}
		parts = append(parts, p.what+" "+named)
	}
	return strings.Join(parts, "; ")
}
