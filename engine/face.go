package engine

import (
	"fmt"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/perexample"
)

// face is what data meet of a network, without the graph and the weights in it.
type face struct {
	batch  int
	inputs []facet
	output int // numbers that an example is answered with; 0: none are kept
}

// facet is an input: its name, and how many numbers of an example it takes.
type facet struct {
	name string
	size int
}

func faceOf(n *perexample.Network) face {
	f := face{batch: n.Batch}
	for _, in := range n.Inputs {
		f.inputs = append(f.inputs, facet{in.Name(), in.Shape().TotalSize() / n.Batch})
	}
	if n.Output != nil {
		f.output = n.Output.Shape().TotalSize() / n.Batch
	}
	return f
}

// check says how a network and the columns of a set do not fit.
func (f face) check(columns []data.Column) error {
	if len(f.inputs) != len(columns) {
		return fmt.Errorf("the network has %d inputs and the data %d columns: they must match one to one", len(f.inputs), len(columns))
	}
	for k, in := range f.inputs {
		c := columns[k]
		if in.size != c.Size() {
			return fmt.Errorf("input %s takes %d numbers an example where column %s has %d", in.name, in.size, c.Name, c.Size())
		}
		if f.output == 0 || c.Kind != data.Label {
			continue
		}
		if scores := f.output / c.Size(); scores > 1 && scores < c.Classes {
			return fmt.Errorf("the network answers with %d scores where column %s has %d classes", scores, c.Name, c.Classes)
		}
	}
	return nil
}

// scored is the label column that a network's answers are compared with, and
// how many scores it gives each label; -1 where there is nothing to compare.
func (f face) scored(columns []data.Column) (label, scores int) {
	if f.output == 0 {
		return -1, 0
	}
	for k, c := range columns {
		if c.Kind != data.Label {
			continue
		}
		if scores = f.output / c.Size(); scores >= c.Classes {
			return k, scores
		}
	}
	return -1, 0
}
