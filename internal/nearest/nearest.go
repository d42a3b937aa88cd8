// Package nearest finds the known name that is closest to a mistyped one.
package nearest

import "strings"

// Closest returns the known name with the smallest edit distance to name, the first of
// equals. It returns "" only if known is empty.
func Closest(name string, known []string) string {
	best, _ := closest(name, known)
	return best
}

// LikelyTypo returns the closest known name if it differs from name in at most one letter or a
// third of the letters, and "" otherwise.
func LikelyTypo(name string, known []string) string {
	if best, edits := closest(name, known); edits <= max(1, len(name)/3) {
		return best
	}
	return ""
}

func closest(name string, known []string) (best string, edits int) {
	name = strings.ToLower(name)
	for i, k := range known {
		if d := distance(name, strings.ToLower(k)); i == 0 || d < edits {
			best, edits = k, d
		}
	}
	return best, edits
}

// distance returns the number of insertions, deletions, substitutions and transpositions of
// adjacent letters that turn a into b (optimal string alignment).
func distance(a, b string) int {
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+1)
			if a[i] == b[j] {
				row[j+1] = min(row[j+1], last[j])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
