// Package memory reports how much memory the process can still allocate.
package memory

// Headroom is the memory that the process can allocate before the system kills it or
// refuses an allocation. Memory in the file cache counts as free, because the system can
// reclaim it.
type Headroom struct {
	Bytes     int64
	LimitedBy string // the source of the limit, for messages; empty if the limit is unknown
}

// Fits reports whether an allocation of that size fits. It is true if the limit is unknown.
func (r Headroom) Fits(bytes int64) bool { return r.LimitedBy == "" || bytes <= r.Bytes }

// Available returns the current headroom of this process.
func Available() Headroom { return available() }
