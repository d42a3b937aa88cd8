//go:build gpu

package driver

import (
	"fmt"
	"strings"

	"gorgonia.org/cu"
)

// Listed is what a GPU tells of itself without being opened.
type Listed struct {
	Name   string
	Arch   int // 90 for compute capability 9.0
	Memory int64

	multiprocessors int
	doubles         int // how many floats it computes in the time of one double
	device          cu.Device
}

// Emulated tells whether it is no GPU but the emulated device.
func (l Listed) Emulated() bool { return strings.Contains(strings.ToLower(l.Name), "emulated") }

// List returns the GPUs that the driver shows, none where there is no driver.
func List() ([]Listed, error) {
	count, err := Count()
	if err != nil {
		return nil, err
	}
	list := make([]Listed, count)
	for n := range list {
		if list[n], err = listed(n); err != nil {
			return nil, fmt.Errorf("cuda:%d does not describe itself: %w", n, named(err))
		}
	}
	return list, nil
}

func listed(n int) (l Listed, err error) {
	if l.device, err = cu.GetDevice(n); err != nil {
		return l, err
	}
	if l.Name, err = l.device.Name(); err != nil {
		return l, err
	}
	l.Name = strings.TrimSpace(l.Name)
	attributes, err := l.device.Attributes(cu.ComputeCapabilityMajor, cu.ComputeCapabilityMinor, cu.MultiprocessorCount, cu.SingleToDoublePrecisionPerfRatio)
	if err != nil {
		return l, err
	}
	l.Arch, l.multiprocessors, l.doubles = 10*attributes[0]+attributes[1], attributes[2], attributes[3]
	l.Memory, err = l.device.TotalMem()
	return l, err
}
