//go:build race

package data

// raceDetector reports that the race detector is enabled: the program is slow, and sync.Pool
// drops entries at random.
const raceDetector = true
