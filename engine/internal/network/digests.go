package network

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/perexample"
)

// Digests returns two digests of the computation of a network on an example: of the operations, their
// shapes and the dropout of the training program; and of the constants. With reread it draws constants from their source,
// in parts, and not from memory.
func Digests(build perexample.Build, program *plan.Program, reread bool) (operations, constants string, err error) {
	defer func() {
		if p := recover(); p != nil { // of the user's code
			err = fmt.Errorf("drawing the constants of the network: %v", p)
		}
	}()
	_, evaluation, err := LowerEvaluation(build, 1)
	if err != nil {
		return "", "", err
	}
	sum := sha256.New()
	for _, i := range evaluation.Front {
		if i.Spec != nil {
			fmt.Fprintln(sum, i.Spec.String(), i.In, i.Out)
		} else {
			fmt.Fprintln(sum, i.Foreign.String(), i.In, i.Out)
		}
	}
	for _, d := range dropoutLayers(program) {
		fmt.Fprintln(sum, d)
	}
	values := sha256.New()
	numbers := state.NumberWriter{To: values}
	for _, b := range evaluation.Buffers {
		fmt.Fprintln(sum, b.Role, b.Index, b.Shape)
		if b.Role != plan.RoleConstant {
			continue
		}
		if b.Shared != nil && reread {
			b.Shared.Each(numbers.Write)
		} else {
			b.EachPart(numbers.Write)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), hex.EncodeToString(values.Sum(nil)[:8]), nil
}

// dropoutLayers returns a training program's dropout layers, which an evaluation lacks, in an
// order that does not depend on the microbatch.
func dropoutLayers(program *plan.Program) []string {
	layers := map[string]bool{}
	for _, i := range program.Front {
		if d, ok := i.Spec.(op.Dropout); ok {
			layers[d.String()] = true
		}
	}
	return slices.Sorted(maps.Keys(layers))
}
