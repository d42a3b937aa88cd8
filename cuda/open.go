//go:build gpu

package cuda

import (
	"fmt"
	"sync"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/cuda/kernels"
)

// opened are the devices in use: every machine of a process shares a device's
// context and its kernels.
var opened struct {
	sync.Mutex
	devices map[int]*driver.Device
}

func open(ordinal int) (*driver.Device, error) {
	opened.Lock()
	defer opened.Unlock()
	if d := opened.devices[ordinal]; d != nil {
		return d, nil
	}
	d, err := driver.Open(ordinal)
	if err != nil {
		return nil, err
	}
	image, err := kernels.Image(d.Arch())
	if err == nil {
		err = d.Load(image)
	}
	if err != nil {
		return nil, fmt.Errorf("cuda:%d (%s): %w", ordinal, d.Name(), err)
	}
	if opened.devices == nil {
		opened.devices = map[int]*driver.Device{}
	}
	opened.devices[ordinal] = d
	return d, nil
}

// Devices describes the GPUs of this host.
func Devices() ([]Device, error) {
	n, err := driver.Count()
	if err != nil {
		return nil, err
	}
	var list []Device
	for i := range n {
		d, err := open(i)
		if err != nil {
			return nil, err
		}
		free, total, err := d.Memory()
		if err != nil {
			return nil, err
		}
		list = append(list, Device{i, d.Name(), d.Arch(), free, total, d.Emulated()})
	}
	return list, nil
}
