//go:build gpu

package driver

// #include "calls.h"
// #cgo noescape driver_stream_copy_in
// #cgo nocallback driver_stream_copy_in
// #cgo nocallback driver_record_event
// #cgo nocallback driver_wait_event
// #cgo nocallback driver_synchronize_event
import "C"

import "unsafe"

// Stream is a second stream of a device. Its copies run concurrently with the device's
// work, and are never captured.
type Stream struct {
	device *Device
	stream C.CUstream
}

// NewStream creates a stream.
func (d *Device) NewStream() (*Stream, error) {
	s := &Stream{device: d}
	return s, d.check("a stream cannot be created", C.driver_create_stream(d.current, &s.stream))
}

// CopyIn copies page-locked memory to the device, asynchronously: src must not change
// before the copy has run.
func (s *Stream) CopyIn(dst Pointer, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return s.device.check("a copy to the device failed", C.driver_stream_copy_in(s.device.current, s.stream, C.CUdeviceptr(dst),
		(*C.uchar)(unsafe.SliceData(src)), C.size_t(len(src))))
}

// RecordEvent records the event after the work sent to the stream so far.
func (s *Stream) RecordEvent(e *Event) error {
	return s.device.check("an event cannot be recorded", C.driver_record_event(s.device.current, e.event, s.stream))
}

// Close destroys the stream.
func (s *Stream) Close() error {
	if s == nil || s.stream == nil {
		return nil
	}
	stream := s.stream
	s.stream = nil
	return s.device.check("a stream cannot be destroyed", C.driver_destroy_stream(s.device.current, stream))
}

// Event marks a point in a stream. An event that was never recorded is complete.
type Event struct {
	device *Device
	event  C.CUevent
}

// NewEvent creates an event.
func (d *Device) NewEvent() (*Event, error) {
	e := &Event{device: d}
	return e, d.check("an event cannot be created", C.driver_create_event(d.current, &e.event))
}

// RecordEvent records the event after the work sent to the device so far.
func (d *Device) RecordEvent(e *Event) error {
	return d.check("an event cannot be recorded", C.driver_record_event(d.current, e.event, d.stream))
}

// WaitEvent makes work sent to the device from now on wait for the event.
func (d *Device) WaitEvent(e *Event) error {
	return d.check("the stream cannot wait for an event", C.driver_wait_event(d.current, e.event, d.stream))
}

// Synchronize waits until the event is complete.
func (e *Event) Synchronize() error {
	e.device.eventWaits.Add(1)
	return e.device.check("waiting for an event failed", C.driver_synchronize_event(e.device.current, e.event))
}

// Close destroys the event.
func (e *Event) Close() error {
	if e == nil || e.event == nil {
		return nil
	}
	event := e.event
	e.event = nil
	return e.device.check("an event cannot be destroyed", C.driver_destroy_event(e.device.current, event))
}
