package data

import (
	"runtime"
	"strconv"
	"testing"
)

// The numbers of many rows are copied once, not each time that there are more, and
// stay in order.
func TestManyRows(t *testing.T) {
	const count = 3 * partLength
	l, err := newLayout([]string{"a", "y", "b", "c"}, Schema{Label: "y", Classes: []string{"n", "p"},
		Bounds: map[string]Bounds{"a": {0, 2}, "b": {0, 2}, "c": {0, 2}}})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rows := rows{layout: l}
	row := make([]string, 4)
	for i := range count {
		row[0], row[1], row[2], row[3] = strconv.Itoa(i%3), "np"[i%2:i%2+1], strconv.Itoa(i%2), "2"
		if _, err := rows.add(row); err != nil {
			t.Fatal(err)
		}
	}
	table, err := rows.table(Schema{Label: "y", Classes: []string{"n", "p"}})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took, holds := after.TotalAlloc-before.TotalAlloc, uint64(4*4*count); took > 7*holds/2 && !raceDetector {
		t.Errorf("%d bytes were taken for %d", took, holds)
	}
	features, labels := table.values[0], table.values[1]
	if len(features) != 3*count || len(labels) != count {
		t.Fatalf("%d features and %d labels of %d rows", len(features), len(labels), count)
	}
	for i := range count {
		if f := features[3*i : 3*i+3]; f[0] != float32(i%3)-1 || f[1] != float32(i%2)-1 || f[2] != 1 || labels[i] != float32(i%2) {
			t.Fatalf("row %d: %v, %v", i, f, labels[i])
		}
	}
}
