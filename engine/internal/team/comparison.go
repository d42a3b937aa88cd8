package team

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"

	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/internal/device/simd"
	"github.com/dptrain/dptrain/internal/ranks"
)

// lotsBetweenComparisons is how often ranks compare their weights.
const lotsBetweenComparisons = 64

// ComparesAfter reports whether the ranks compare their weights after a number of lots.
func ComparesAfter(lots int) bool { return lots%lotsBetweenComparisons == 0 }

// CompareSettings returns an error if a rank has other settings than rank 0, another program or another kind of
// processor. The error names the setting.
func (t *Team) CompareSettings(mine state.Fingerprint) error {
	mine = append(mine, state.Entry{Name: "program", Value: runtime.GOARCH + " " + programDigest()},
		state.Entry{Name: "kernels", Value: simd.ISA()})
	text, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	if text, err = ranks.BroadcastAll(t.ranks, text); err != nil {
		return err
	}
	var first state.Fingerprint
	if err = json.Unmarshal(text, &first); err == nil {
		err = firstDifference(mine, first)
	}
	return t.Agree(err)
}

// programDigest returns a digest of the file of this program, which determines all that it computes on one
// kind of processor; "unknown" where it cannot be read.
var programDigest = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return "unknown"
	}
	file, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "unknown"
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
})

func firstDifference(mine, first state.Fingerprint) error {
	for i, e := range mine {
		if i >= len(first) || first[i].Name != e.Name {
			return fmt.Errorf("it has the setting %s, which rank 0 does not have", e.Name)
		}
		if first[i] != e {
			return fmt.Errorf("its setting %s is %s, and that of rank 0 is %s", e.Name, e.Value, first[i].Value)
		}
	}
	if len(first) > len(mine) {
		return fmt.Errorf("it lacks the setting %s of rank 0", first[len(mine)].Name)
	}
	return nil
}

// CompareWeights returns an error if a rank has other weights than rank 0.
func (t *Team) CompareWeights(weights ...[]float32) error {
	sum := sha256.New()
	numbers := state.NumberWriter{To: sum}
	for _, values := range weights {
		numbers.Write(values)
	}
	return ranks.RequireEqual(t.ranks, "weights", sum.Sum(nil))
}
