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
	device, err := cu.GetDevice(n)
	if err != nil {
		return l, err
	}
	if l.Name, err = device.Name(); err != nil {
		return l, err
	}
	attributes, err := device.Attributes(cu.ComputeCapabilityMajor, cu.ComputeCapabilityMinor)
	if err != nil {
		return l, err
	}
	l.Name, l.Arch = strings.TrimSpace(l.Name), 10*attributes[0]+attributes[1]
	l.Memory, err = device.TotalMem()
	return l, err
}
