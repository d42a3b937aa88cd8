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

// Without returns the headroom beside a data set of some bytes, at least half of the headroom: the
// size of a data set may be a public bound that is far from its actual size.
func (r Headroom) Without(bytes int64) Headroom {
	r.Bytes -= min(bytes, r.Bytes/2)
	return r
}

// Available returns the current headroom of this process.
func Available() Headroom { return available() }

var atStart = available()

// AtStart returns the headroom of this process when it started. It was read before any data, so it
// does not depend on private data. The current headroom does: texts and pictures take memory
// according to their length, and reading them leaves unused memory behind.
func AtStart() Headroom { return atStart }
