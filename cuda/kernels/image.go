//go:build gpu

package kernels

import (
	_ "embed"
	"fmt"
)

//go:embed kernels.zip
var archive []byte

// cubins are the compiled architectures, the newest first. A cubin runs on later GPUs of
// its own major version: sm_80's on 8.7, but not on 9.0.
var cubins = []int{120, 100, 90, 89, 86, 80, 75}

// ptx is the architecture of the PTX, which the driver compiles for later major versions.
const ptx = 90

// ImageFor returns the kernels for a GPU of this compute capability (90 for 9.0): a
// cubin, or PTX.
func ImageFor(arch int) ([]byte, error) {
	name, err := imageName(arch)
	if err != nil {
		return nil, err
	}
	return ReadImage(archive, name)
}

func imageName(arch int) (string, error) {
	for _, cubin := range cubins {
		if cubin/10 == arch/10 && cubin <= arch {
			return fmt.Sprintf("sm_%d.cubin", cubin), nil
		}
	}
	if arch >= ptx {
		return fmt.Sprintf("compute_%d.ptx", ptx), nil
	}
	oldest := cubins[len(cubins)-1]
	return "", fmt.Errorf("there are no kernels for compute capability %d.%d: the oldest is %d.%d",
		arch/10, arch%10, oldest/10, oldest%10)
}
