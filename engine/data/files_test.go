package data

import (
	"path/filepath"
	"testing"
)

// A copy is found by its content, also if it is compressed. Nothing else counts as a copy.
func TestSameContent_FindsCopies(t *testing.T) {
	long := make([]byte, 1<<15)
	dir := writeFiles(t, map[string][]byte{
		"a.csv": []byte(people), "copy.csv": []byte(people), "copy.csv.gz": gzipped(t, []byte(people)),
		"longer.csv": []byte(people + "\n"), "other.csv": []byte("x" + people[1:]),
		"long": long, "long+1": append(long, 1), "folder/x": nil, "damaged.gz": gzipped(t, []byte(people))[:20],
	})
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a.csv", "a.csv", true}, {"a.csv", "copy.csv", true}, {"a.csv", "copy.csv.gz", true}, {"copy.csv.gz", "a.csv", true},
		{"a.csv", "longer.csv", false}, {"longer.csv", "a.csv", false}, {"a.csv", "other.csv", false}, {"long", "long", true}, {"long", "long+1", false},
		{"a.csv", "damaged.gz", false}, {"folder", "folder", false}, {"a.csv", "nowhere", false}, {"nowhere", "nowhere", false},
	} {
		if got := SameContent(in(c.a), in(c.b)); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}
