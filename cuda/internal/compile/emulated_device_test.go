//go:build gpu

package compile

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/cuda/internal/kernels"
)

// onCard runs tests in a process whose emulated device has other properties.
func onCard(t *testing.T, tests string, device ...string) {
	t.Helper()
	list, err := driver.Devices()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 || !list[0].Emulated() {
		t.Skip("only the emulated device can be another")
	}
	c := exec.Command(os.Args[0], "-test.run="+tests, "-test.short")
	c.Env = append(append(os.Environ(), "DPTRAIN_CUBLASLT=none", "DPTRAIN_CUDNN=none"), device...)
	if output, err := c.CombinedOutput(); err != nil || strings.Contains(string(output), "no tests to run") {
		t.Fatalf("%v\n%s", err, output)
	}
}

// On a GPU, temporary buffers share an arena; on the emulated device each has an
// allocation whose ends are checked. So networks are also trained on an emulated device
// that is named like a GPU and has as many multiprocessors as an H200, which changes the
// launches.
func TestArena_TrainsNetworks(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	onCard(t, "^TestNetworks_MatchCPU$/^(digits-cnn|mlp:50,dropout=0.5|lstm|embbag|transformer:tied)|^TestPipeline_CopiesDuringWork$|^TestContributions_SameBitsAsCPU$|^TestContributions_OfNetworks$/^(mlp|mnist-cnn|gru|embbag|transformer:tied)", "DPTRAIN_EMU_NAME=a GPU", "DPTRAIN_EMU_MULTIPROCESSORS=132")
}

// A GPU without tensor cores for TF32 and bfloat16 computes in float32.
func TestOldGPU_ComputesInFloat32(t *testing.T) {
	if _, err := kernels.ImageFor(75); err != nil {
		t.Skip("a bundle has the kernels of one architecture: ", err)
	}
	onCard(t, "^TestTensorCores_RoundOnlyOperands$|^TestNetworks_InPrecision$/mlp", "DPTRAIN_EMU_ARCH=75")
}
