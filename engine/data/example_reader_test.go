package data

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// The numbers of many rows are copied once in total, and not each time that the list grows.
// They stay in order.
func TestExampleReader_CopiesRowsOnce(t *testing.T) {
	const count = 3 * chunkLength
	l, err := newLayout([]string{"a", "y", "b", "c"}, Schema{Label: "y", Classes: []string{"n", "p"},
		Bounds: map[string]Bounds{"a": {0, 2}, "b": {0, 2}, "c": {0, 2}}})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rows := exampleReader{rowLayout: l}
	row := make([]string, 4)
	for i := range count {
		row[0], row[1], row[2], row[3] = strconv.Itoa(i%3), "np"[i%2:i%2+1], strconv.Itoa(i%2), "2"
		if _, err := rows.add(row); err != nil {
			t.Fatal(err)
		}
	}
	set, err := rows.set(Schema{Label: "y", Classes: []string{"n", "p"}})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if allocated, needed := after.TotalAlloc-before.TotalAlloc, uint64(4*4*count); allocated > 7*needed/2 && !raceDetector {
		t.Errorf("%d bytes were allocated for %d bytes", allocated, needed)
	}
	features, labels := set.(*Table).values[0], set.(*Table).values[1]
	if len(features) != 3*count || len(labels) != count {
		t.Fatalf("%d features and %d labels of %d rows", len(features), len(labels), count)
	}
	for i := range count {
		if f := features[3*i : 3*i+3]; f[0] != float32(i%3)-1 || f[1] != float32(i%2)-1 || f[2] != 1 || labels[i] != float32(i%2) {
			t.Fatalf("row %d: %v, %v", i, f, labels[i])
		}
	}
}

// Texts are stored without padding, also across chunks, and independent of the length of an
// example.
func TestExampleReader_CopiesTextsOnce(t *testing.T) {
	const length, count = 1 << 15, 1000
	tok, err := Schema{Tokens: "bytes", Length: length, PredictNext: true}.tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rows := exampleReader{rowLayout: textLayout(tok)}
	text := strings.Repeat("a", chunkLength/300) + "b"
	for range count {
		if _, err := rows.add([]string{text}); err != nil {
			t.Fatal(err)
		}
	}
	set, err := rows.set(Schema{})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if allocated, needed := after.TotalAlloc-before.TotalAlloc, uint64(4*count*len(text)); allocated > 4*needed && !raceDetector {
		t.Errorf("%d bytes were allocated for %d bytes", allocated, needed)
	}
	dst := newBuffers(set, 1)
	for r := range count {
		if err := set.Read(dst, []int{r}); err != nil {
			t.Fatal(err)
		}
		if n := len(text); dst[0][0] != newline || dst[0][n] != 'b' || dst[0][n+1] != Pad || dst[1][n-1] != 'b' || dst[1][n] != newline || dst[1][n+1] != Pad {
			t.Fatalf("text %d begins with %v, %v", r, dst[0][:2], dst[1][:2])
		}
	}
}
