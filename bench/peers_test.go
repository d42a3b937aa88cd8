package bench

import (
	"cmp"
	"os"
	"os/exec"
	"testing"
)

// The peers' networks make every tensor on the device of their input, on PyTorch's meta device as on
// a GPU. The Python of the variable PYTHON, python3 by default, needs torch; Opacus' networks are
// tested if it has opacus too.
func TestPeers_OnMetaDevice(t *testing.T) {
	if testing.Short() {
		t.Skip("importing torch takes seconds")
	}
	python := cmp.Or(os.Getenv("PYTHON"), "python3")
	if output, err := exec.Command(python, "-c", "import numpy, torch").CombinedOutput(); err != nil {
		t.Skipf("%s cannot import numpy and torch: %v\n%s", python, err, output)
	}
	test := exec.Command(python, "-m", "unittest", "test_torch_networks")
	test.Dir = "peers"
	test.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if output, err := test.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
