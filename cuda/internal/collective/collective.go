//go:build gpu

// Package collective connects the devices of several ranks by NCCL. Sums are added, and weights exchanged, where they
// are: in the memory of the devices. The messages of the hosts travel by MPI, or through the devices where there is no
// MPI.
package collective

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/ranks"
)

// Devices adds integers in the memory of the devices of all ranks, and exchanges weights between them.
type Devices struct {
	device  *driver.Device
	nccl    *driver.NCCL
	timeout time.Duration
}

// IsOn reports whether the sums of a device can be added.
func (d *Devices) IsOn(device *driver.Device) bool { return d.device == device }

// SumOnDevice replaces integers of the device by their sums over all ranks, asynchronously.
func (d *Devices) SumOnDevice(values driver.Pointer, count int) error {
	return d.nccl.Sum(values, count)
}

// SumParts gives each rank the sums of the integers in its parts, asynchronously. The parts of the others are
// undefined afterwards.
func (d *Devices) SumParts(parts []driver.Part) error { return d.nccl.SumParts(parts) }

// BroadcastParts gives all ranks the bytes of each rank's parts, asynchronously.
func (d *Devices) BroadcastParts(parts []driver.Part) error { return d.nccl.BroadcastParts(parts) }

// wait waits for the sums. It returns an error if another rank has failed, and driver.ErrLate if they take
// longer than the timeout; then nothing waits for them any more.
func (d *Devices) wait() error {
	err := d.nccl.Wait(d.timeout)
	if errors.Is(err, driver.ErrLate) {
		d.nccl.Abort()
	}
	return err
}

// join connects the devices of all ranks with the id of rank 0, which share gives to all. What fails before
// NCCL waits for the others is the error of all.
func join(device *driver.Device, rank, size int, share func(id []byte, err error) ([]byte, error)) (*Devices, error) {
	nccl, err := driver.OpenNCCL(device)
	var id []byte
	if err == nil && rank == 0 {
		id, err = nccl.NewID()
	}
	id, err = share(id, err)
	if err == nil {
		err = nccl.Join(id, rank, size)
	}
	if err != nil && nccl != nil {
		nccl.Close()
	}
	return &Devices{device: device, nccl: nccl}, err
}

// mixed is a communicator with MPI for the messages of the hosts.
type mixed struct {
	ranks.Communicator
	Devices
}

// Connect connects the devices of ranks that are connected already.
func Connect(host ranks.Communicator, device *driver.Device) (ranks.Communicator, error) {
	d, err := join(device, host.Rank(), host.Size(), func(id []byte, err error) ([]byte, error) {
		if err := ranks.Agree(host, err); err != nil {
			return nil, err
		}
		return ranks.BroadcastAll(host, id)
	})
	if err := ranks.Agree(host, err); err != nil {
		return nil, err
	}
	return &mixed{host, *d}, nil
}

func (m *mixed) SetTimeout(limit time.Duration) {
	m.timeout = limit
	m.Communicator.SetTimeout(limit)
}

// Wait waits for the sums, and returns an error if another rank has failed. All ranks are late together, so they
// find out by MPI which one does not respond.
func (m *mixed) Wait() error {
	err := m.wait()
	if errors.Is(err, driver.ErrLate) {
		return ranks.Agree(m.Communicator, err)
	}
	return err
}

func (m *mixed) Transport() string { return m.Communicator.Transport() + "+nccl" }

func (m *mixed) String() string { return fmt.Sprintf("%v, sums by %v", m.Communicator, m.nccl) }

func (m *mixed) Abort(reason string) {
	m.nccl.Abort()
	m.Communicator.Abort(reason)
}

func (m *mixed) Close() error {
	m.nccl.Close()
	return m.Communicator.Close()
}

// through is a communicator whose messages of the host travel through the devices.
type through struct {
	Devices
	rank, size int
	calls      sync.Mutex
	buffer     driver.Pointer
	failed     error
}

// bufferBytes is the memory of a device for the messages of the host. A longer message takes several turns.
const bufferBytes = 1 << 22

// Open connects the devices of the ranks of a launch, whose processes find each other by TCP.
func Open(launch ranks.Launch, device *driver.Device) (ranks.Communicator, error) {
	d, err := join(device, launch.Rank, launch.Size, func(id []byte, err error) ([]byte, error) {
		if err != nil {
			return nil, err
		}
		return launch.Exchange(id)
	})
	if err != nil {
		return nil, err
	}
	t := &through{Devices: *d, rank: launch.Rank, size: launch.Size}
	if t.buffer, err = device.Alloc(bufferBytes); err != nil {
		t.nccl.Close()
		return nil, err
	}
	return t, nil
}

func (t *through) Rank() int { return t.rank }

func (t *through) Size() int { return t.size }

func (t *through) SetTimeout(limit time.Duration) { t.timeout = limit }

// Wait waits for the sums, and returns an error if another rank has failed or is late. NCCL does not know which
// one is late, so every rank reports it.
func (t *through) Wait() error {
	err := t.wait()
	if errors.Is(err, driver.ErrLate) {
		err = &ranks.Unresponsive{Reporter: t.rank, Timeout: t.timeout}
	}
	return err
}

func (t *through) Transport() string { return "nccl" }

func (t *through) String() string { return t.nccl.String() }

func (t *through) Sum(values []int64) error {
	return t.each(bytesOf(values), func(n int) error { return t.nccl.Sum(t.buffer, n/8) })
}

func (t *through) Sum32(values []int32) error {
	wide := make([]int64, len(values))
	for i, v := range values {
		wide[i] = int64(v)
	}
	err := t.Sum(wide)
	for i, v := range wide {
		values[i] = int32(v)
	}
	return err
}

// Gather adds words in which each byte is that of one rank.
func (t *through) Gather(b []byte, ends []int) error {
	from, to := ranks.PartOf(ends, t.rank)
	words := make([]int64, (len(b)+7)/8)
	all := bytesOf(words)
	copy(all[from:], b[from:to])
	err := t.Sum(words)
	copy(b, all)
	return err
}

func (t *through) Broadcast(b []byte) error {
	return t.each(b, func(n int) error { return t.nccl.Broadcast(t.buffer, n) })
}

func bytesOf(values []int64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 8*len(values))
}

// each copies bytes to the device, part by part, calls NCCL and copies its result back.
func (t *through) each(bytes []byte, call func(n int) error) error {
	t.calls.Lock()
	defer t.calls.Unlock()
	for len(bytes) > 0 && t.failed == nil {
		part := bytes[:min(len(bytes), bufferBytes)]
		if t.failed = t.exchange(part, call); t.failed == nil {
			bytes = bytes[len(part):]
		}
	}
	return t.failed
}

func (t *through) exchange(part []byte, call func(n int) error) error {
	defer runtime.KeepAlive(part)
	if err := t.device.CopyIn(t.buffer, part); err != nil {
		return err
	}
	if err := call(len(part)); err != nil {
		return err
	}
	if err := t.Wait(); err != nil {
		return err
	}
	return errors.Join(t.device.CopyOut(part, t.buffer), t.device.Synchronize())
}

// Abort ends the calls that this rank waits for. The launcher ends the other processes when this one ends.
func (t *through) Abort(string) { t.nccl.Abort() }

func (t *through) Close() error {
	t.nccl.Close()
	return t.device.Free(t.buffer)
}
