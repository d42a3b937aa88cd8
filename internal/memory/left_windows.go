package memory

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// memoryStatus is MEMORYSTATUSEX.
type memoryStatus struct {
	length, load                    uint32
	total, free                     uint64
	totalToCommit, freeToCommit     uint64
	totalAddresses, addresses, more uint64
}

var globalMemoryStatusEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// left is what Windows lets the process commit; it grants nothing that it may not have.
func left() Room {
	s := memoryStatus{length: uint32(unsafe.Sizeof(memoryStatus{}))}
	if ok, _, _ := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&s))); ok == 0 {
		return Room{}
	}
	return Room{int64(s.freeToCommit), "this host"}
}
