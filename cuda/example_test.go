package cuda_test

import (
	"errors"
	"fmt"

	"github.com/dptrain/dptrain/cuda"
)

// A program asks for the GPUs of the host. A binary without CUDA gets an error that explains how to
// build one with it.
func ExampleDevices() {
	devices, err := cuda.Devices()
	switch {
	case errors.Is(err, cuda.ErrNotBuilt):
		fmt.Println(err)
	case err != nil:
		fmt.Println("no GPU:", err)
	}
	for _, d := range devices {
		fmt.Printf("%v: %s, %d MiB\n", d, d.Name, d.Memory>>20)
	}
}

func ExampleParsePrecision() {
	for _, name := range []string{"", "tf32", "fp64"} {
		p, err := cuda.ParsePrecision(name)
		fmt.Println(p, err)
	}
	// Output:
	// fp32 <nil>
	// tf32 <nil>
	// fp32 precision "fp64" is unknown: use one of fp32, tf32, bf16
}
