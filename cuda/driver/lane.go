//go:build gpu

package driver

// #include "calls.h"
// #cgo noescape driver_lane_copy_in
// #cgo nocallback driver_lane_copy_in
// #cgo nocallback driver_mark
// #cgo nocallback driver_follow
// #cgo nocallback driver_reach
import "C"

import "unsafe"

// Lane is a second stream of a device, whose copies run beside the device's work.
type Lane struct {
	device *Device
	stream C.CUstream
}

// Lane makes a lane.
func (d *Device) Lane() (*Lane, error) {
	l := &Lane{device: d}
	return l, d.check("no stream can be made", C.driver_lane(d.current, &l.stream))
}

// CopyIn copies page-locked memory to the device beside its work: the memory must
// stay as it is until the copy has run.
func (l *Lane) CopyIn(dst Pointer, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return l.device.check("nothing can be copied in", C.driver_lane_copy_in(l.device.current, l.stream, C.CUdeviceptr(dst),
		(*C.uchar)(unsafe.SliceData(src)), C.size_t(len(src))))
}

// Mark moves the event behind what was sent to the lane so far.
func (l *Lane) Mark(e *Event) error {
	return l.device.check("no event can be marked", C.driver_mark(l.device.current, e.event, l.stream))
}

// Close gives the lane back.
func (l *Lane) Close() error {
	if l == nil || l.stream == nil {
		return nil
	}
	stream := l.stream
	l.stream = nil
	return l.device.check("a stream cannot be given back", C.driver_drop_lane(l.device.current, stream))
}

// Event is a place in the order of a device's work. One that was never marked has
// been reached.
type Event struct {
	device *Device
	event  C.CUevent
}

// Event makes an event.
func (d *Device) Event() (*Event, error) {
	e := &Event{device: d}
	return e, d.check("no event can be made", C.driver_event(d.current, &e.event))
}

// Mark moves the event behind what was sent to the device so far.
func (d *Device) Mark(e *Event) error {
	return d.check("no event can be marked", C.driver_mark(d.current, e.event, d.stream))
}

// Follow has what is sent to the device from now on run after the event.
func (d *Device) Follow(e *Event) error {
	return d.check("no event can be followed", C.driver_follow(d.current, e.event, d.stream))
}

// Wait returns when the event has been reached.
func (e *Event) Wait() error {
	return e.device.check("its work does not end", C.driver_reach(e.device.current, e.event))
}

// Close gives the event back.
func (e *Event) Close() error {
	if e == nil || e.event == nil {
		return nil
	}
	event := e.event
	e.event = nil
	return e.device.check("an event cannot be given back", C.driver_drop_event(e.device.current, event))
}
