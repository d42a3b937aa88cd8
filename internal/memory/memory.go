// Package memory tells how much memory a process may still take.
package memory

// Room is what a process may still take before the system ends it or refuses it more.
// What a system could take back from caches of files counts.
type Room struct {
	Bytes int64
	Of    string // what sets the limit, in words; empty where nothing tells
}

// Holds reports whether so many bytes may be taken; where nothing tells, they may.
func (r Room) Holds(bytes int64) bool { return r.Of == "" || bytes <= r.Bytes }

// Left is the room on this host, now.
func Left() Room { return left() }
