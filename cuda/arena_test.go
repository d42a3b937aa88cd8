//go:build gpu

package cuda

import (
	"os"
	"os/exec"
	"testing"
)

// On a GPU temporaries share an arena; on the emulated device each has memory of its
// own, whose ends are guarded. So networks are trained on an emulated device that
// calls itself a GPU, too.
func TestArena(t *testing.T) {
	device(t)
	list, err := Devices()
	if err != nil {
		t.Fatal(err)
	}
	if !list[0].Emulated {
		t.Skip("every other test is of the arena here")
	}
	if testing.Short() {
		t.Skip("long")
	}
	c := exec.Command(os.Args[0], "-test.run=^TestNetworks$/^(digits-cnn|mlp:50,dropout=0.5|lstm|embbag|transformer:tied)|^TestCopiesBesideTheWork$", "-test.short", "-test.v")
	c.Env = append(os.Environ(), "DPTRAIN_EMU_NAME=a GPU", "DPTRAIN_CUBLASLT=none", "DPTRAIN_CUDNN=none")
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
}
