package memory

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// memoryStatus has the layout of MEMORYSTATUSEX.
type memoryStatus struct {
	length, load                    uint32
	total, free                     uint64
	totalToCommit, freeToCommit     uint64
	totalAddresses, addresses, more uint64
}

var globalMemoryStatusEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// available returns the memory that the process can commit. Windows does not overcommit.
func available() Headroom {
	s := memoryStatus{length: uint32(unsafe.Sizeof(memoryStatus{}))}
	if ok, _, _ := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&s))); ok == 0 {
		return Headroom{}
	}
	return Headroom{int64(s.freeToCommit), "this host"}
}
