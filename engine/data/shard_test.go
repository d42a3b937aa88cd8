package data

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The shards of a file have its examples, each once, with the length, the users and the columns of the whole.
func TestShard_DividesFile(t *testing.T) {
	dir := t.TempDir()
	var table, lines, notes strings.Builder
	table.WriteString("owner,age,weight,mood\n")
	for i := range 50 {
		mood := []string{"low", "high", "low", "?"}[i%4]
		fmt.Fprintf(&table, "u%d,%d,%d,%s\n", i*i%7, i, i%5, mood)
		fmt.Fprintf(&lines, `{"owner": "u%d", "age": %d, "weight": %d, "mood": "%s"}`+"\n", i*i%7, i, i%5, mood)
		fmt.Fprintf(&notes, `{"owner": "u%d", "body": "%s", "mood": "%s"}`+"\n", i*i%7, strings.Repeat("x", i%9), mood)
	}
	for name, text := range map[string]string{"people.csv": table.String(), "people.jsonl": lines.String(), "notes.jsonl": notes.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	numbers := Schema{Label: "mood", Classes: []string{"low", "high"}, User: "owner", Weight: "weight", Bounds: map[string]Bounds{"age": {0, 50}}}
	texts := Schema{Label: "mood", Classes: []string{"low", "high"}, User: "owner", Text: "body", Tokens: "bytes", Length: 6}
	for name, schema := range map[string]Schema{"people.csv": numbers, "people.jsonl": numbers, "notes.jsonl": texts} {
		for _, shard := range []Shard{{Size: 3}, {Size: 4, Examples: 3}, {Size: 3, Users: true}, {Size: 60}} {
			open := func(s Shard) Set {
				task, err := Open(filepath.Join(dir, name), Options{Schema: schema, Shard: s})
				if err != nil {
					t.Fatal(err)
				}
				return task.Train
			}
			whole, owners := open(Shard{}), make([]int, 50)
			for shard.Rank = range shard.Size {
				part := open(shard)
				if part.Len() != whole.Len() || !slices.Equal(Users(part), Users(whole)) || !IsSharded(part) || len(Weights(part)) != len(Weights(whole)) {
					t.Fatalf("%s, %+v: the shard has other examples or users than the whole", name, shard)
				}
				for row := range whole.Len() {
					want, got := exampleOf(t, whole, row), newExample(whole)
					if err := part.Read(got, []int{row}); err != nil {
						continue
					}
					owners[row]++
					for k := range want {
						if !slices.Equal(got[k], want[k]) {
							t.Errorf("%s, %+v: example %d is %v, want %v", name, shard, row, got[k], want[k])
						}
					}
					if isBlank(part, row) != isBlank(whole, row) || Weights(whole) != nil && Weights(part)[row] != Weights(whole)[row] {
						t.Errorf("%s, %+v: example %d has another weight, or is blank", name, shard, row)
					}
				}
			}
			if slices.ContainsFunc(owners, func(n int) bool { return n != 1 }) {
				t.Errorf("%s, %+v: the shards have the examples %v times", name, shard, owners)
			}
		}
	}
}

func isBlank(s Set, row int) bool { return Blank(s) != nil && Blank(s)[row] }

func newExample(s Set) (dst [][]float32) {
	for _, c := range s.Columns() {
		dst = append(dst, make([]float32, c.Size()))
	}
	return dst
}

func exampleOf(t *testing.T, s Set, row int) [][]float32 {
	t.Helper()
	dst := newExample(s)
	if err := s.Read(dst, []int{row}); err != nil {
		t.Fatal(err)
	}
	return dst
}
