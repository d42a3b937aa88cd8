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
	devices   map[int]*driver.Device
	libraries map[int]*libraries
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

// Devices describes the GPUs of this host. It opens none of them.
func Devices() ([]Device, error) {
	list, err := driver.List()
	var devices []Device
	for n, l := range list {
		devices = append(devices, Device{n, l.Name, l.Arch, l.Memory, l.Emulated()})
	}
	return devices, err
}

// Free is how many bytes of a GPU's memory are free. It opens the GPU.
func Free(ordinal int) (int64, error) {
	d, err := open(ordinal)
	if err != nil {
		return 0, err
	}
	free, _, err := d.Memory()
	return free, err
}

// Taken is how many bytes of a GPU's memory programs of this process hold. It opens the GPU.
func Taken(ordinal int) (int64, error) {
	d, err := open(ordinal)
	if err != nil {
		return 0, err
	}
	return d.Taken(), nil
}
