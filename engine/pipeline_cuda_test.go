package engine

import (
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine/internal/lot"
)

// scarceMemory gives an emulated device memory for the network and not for the data.
const scarceMemory = "DPTRAIN_EMU_MEMORY=8M"

// A run whose data are copied during computation gives the same bits as one whose data stay on
// the device, including dropout and the weights of users' examples.
func TestPipeline_DataLargerThanDevice(t *testing.T) {
	list, _ := Devices()
	if last := list[len(list)-1]; !strings.Contains(last.Description, "emulated") {
		t.Skip("needs the emulated device: make test-emu PKG=./engine")
	}
	const many = 200000
	name, value, _ := strings.Cut(scarceMemory, "=")
	inside := os.Getenv(name) == value
	for what, change := range map[string]func(*Config){
		"examples": func(c *Config) { c.Train = mlpExamples(many, 3) },
		"users": func(c *Config) {
			x, labels, users := make([]float32, many*features), make([]float32, many), make([]int32, many)
			for i := range users {
				x[i*features], labels[i], users[i] = float32(i%7), float32(i%classes), int32(i%(many/3))
			}
			c.Train, c.Records = newTable(x, labels, users), Records{Users: true, Examples: 3}
		},
	} {
		t.Run(what, func(t *testing.T) {
			c := testConfig(t)
			c.Network, c.Device.Name, c.Microbatch = mlpWithDropout(0.5), "cuda:0", 5
			change(&c)
			r := newRun(t, c)
			if copied := r.lot.Method.(*lot.Pipeline).Pipeline.Rows() == nil; copied != inside {
				t.Fatalf("the data are copied: %v", copied)
			}
			trainRun(t, r, nil)
			hash := fnv.New64()
			for _, w := range flatWeights(t, r) {
				fmt.Fprint(hash, math.Float32bits(w))
			}
			line := fmt.Sprintf("weights of %s: %x", what, hash.Sum64())
			if inside {
				fmt.Println(line)
				return
			}
			self := exec.Command(os.Args[0], "-test.run=^TestPipeline_DataLargerThanDevice$/^"+what+"$")
			self.Env = append(os.Environ(), scarceMemory)
			if output, err := self.CombinedOutput(); err != nil || !strings.Contains(string(output), line) {
				t.Errorf("%v\n%swant %s", err, output, line)
			}
		})
	}
}
