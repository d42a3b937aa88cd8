package memory

import "golang.org/x/sys/unix"

// available returns the physical memory: macOS adds swap files as long as the disk has space.
func available() Headroom {
	bytes, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return Headroom{}
	}
	return Headroom{int64(bytes), "this host"}
}
