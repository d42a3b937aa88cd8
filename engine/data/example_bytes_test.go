package data

import (
	"slices"
	"testing"
)

// The memory that an example takes follows from the columns: sets of other content have the same.
func TestExampleBytes_FollowsFromColumns(t *testing.T) {
	schema := Schema{PredictNext: true, Tokens: "bytes", Length: 100}
	dir := writeFiles(t, map[string][]byte{"short.txt": []byte("a\nb\n"), "long.txt": []byte(string(slices.Repeat([]byte("a"), 300)) + "\nb\n")})
	var all []int
	for _, name := range []string{"short.txt", "long.txt"} {
		task, err := Open(dir+"/"+name, Options{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		part, err := Subset(task.Train, []int{0})
		if err != nil {
			t.Fatal(err)
		}
		joined, err := Concat(task.Train, withBlank(part, []bool{true}))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, ExampleBytes(task.Train), ExampleBytes(part), ExampleBytes(joined))
	}
	if len(slices.Compact(all)) != 1 || all[0] < 2*4*100 {
		t.Errorf("%v bytes", all)
	}
	pictures, err := NewPictures(1, 10, 10, make([]byte, 100), []int32{0}, 2, nil)
	if err != nil || ExampleBytes(pictures) > 100+overheadBytes {
		t.Errorf("%d bytes, %v", ExampleBytes(pictures), err)
	}
}
