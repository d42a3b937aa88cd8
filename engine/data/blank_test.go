package data

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The attack: the data sets differ in the second example, which cannot be read. With the policy
// blank, there is no error, and the number of examples, their shape and all other examples are the
// same. With the policy fail, the error is marked as private.
func TestOpen_BadRowChangesNothingElse(t *testing.T) {
	table := Schema{Label: "sick", Classes: Classes{"no", "yes"}, Bounds: map[string]Bounds{"age": {0, 100}}, User: "who"}
	target := Schema{Target: "age", Bounds: map[string]Bounds{"age": {0, 100}}, Vocabulary: map[string][]string{"who": {"a"}}, Ignore: []string{"sick"}}
	text := Schema{Label: "sick", Classes: Classes{"no", "yes"}, Text: "text", Tokens: "9", Length: 3}
	two := Schema{Classes: Classes{"0", "1"}}
	x := func(values ...float32) []byte { return encodeNPY("<f4", "False", "(4, 1)", values) }
	y := func(values ...int32) []byte { return encodeNPY("<i4", "False", "(4,)", values) }
	bytesOf := func(values ...byte) []byte { return encodeNPY("|u1", "False", "(4, 1)", values) }
	ids := func(bad int32) []byte { return encodeNPY("<i4", "False", "(4, 2)", []int32{1, 2, 3, bad, 5, 6, 7, -1}) }
	csv := func(second string) map[string][]byte {
		return map[string][]byte{"a.csv": []byte("age,who,sick\n10,a,no\n" + second + "\n30,\"c\",no\n40,\"d\nd\",yes\n")}
	}
	jsonl := func(second string) map[string][]byte {
		return map[string][]byte{"a.jsonl": []byte("{\"text\":[1,2],\"sick\":\"no\"}\n" + second + "\n{\"text\":[3],\"sick\":\"no\"}\n{\"text\":\"4 5\",\"sick\":\"yes\"}\n")}
	}
	lines := func(second string) map[string][]byte {
		return map[string][]byte{"a.txt": []byte("1 2\n" + second + "\n4 5\n6\n")}
	}
	arrays := func(x, y []byte) map[string][]byte {
		files := map[string][]byte{"x_train.npy": x}
		if y != nil {
			files["y_train.npy"] = y
		}
		return files
	}
	pictures := func(second []byte) map[string][]byte {
		good := encodePNG(t, grayPicture(2, 2))
		return map[string][]byte{"a/1.png": good, "a/2.png": second, "b/1.png": good, "b/2.png": good}
	}
	idx := func(label byte) map[string][]byte {
		pixels, labels := encodeIDX([]byte{1, 2, 3, 4}, 4, 1, 1), encodeIDX([]byte{1, label, 2, 3}, 4)
		return map[string][]byte{"train-images-idx3-ubyte": pixels, "train-labels-idx1-ubyte": labels, "t10k-images-idx3-ubyte": pixels, "t10k-labels-idx1-ubyte": encodeIDX([]byte{1, 2, 2, 3}, 4)}
	}
	steps := func(bad int32) []byte { return encodeNPY("<i4", "False", "(4, 2)", []int32{0, 1, 1, bad, 0, 0, 1, -1}) }
	nan, infinite := float32(math.NaN()), float32(math.Inf(1))
	for kind, c := range map[string]struct {
		name string
		o    Options
		good map[string][]byte
		bad  []map[string][]byte
	}{
		"a table": {"a.csv", Options{Schema: table}, csv("20,b,yes"), []map[string][]byte{
			csv("20,b,maybe"), csv("old,b,yes"), csv("NaN1,b,yes"), csv("20,,yes"), csv("20,b"), csv("20,b,yes,more"), csv("20,b\"b,yes"),
			csv("20,\"b,yes"), csv("\"20,b,yes"), csv("20,\"b\" ,yes"), csv("   ")}},
		"a target":     {"a.csv", Options{Schema: target}, csv("20,b,yes"), []map[string][]byte{csv("old,b,yes"), csv(",b,yes"), csv("20,b")}},
		"objects":      {"a.jsonl", Options{Schema: text}, jsonl(`{"text":[8],"sick":"no"}`), []map[string][]byte{jsonl(`{"text":[9],"sick":"no"}`), jsonl(`{"text":[8]}`), jsonl(`{"text":{},"sick":"no"}`), jsonl("{"), jsonl("a"), jsonl(`{"text":[8],"sick":"no","secret":1}`)}},
		"text":         {"a.txt", Options{Schema: Schema{Tokens: "9", Length: 3}}, lines("7 8"), []map[string][]byte{lines("7 9"), lines("word")}},
		"arrays":       {"", Options{Schema: two}, arrays(x(1, 2, 3, 4), y(0, 1, 1, 0)), []map[string][]byte{arrays(x(1, nan, 3, 4), y(0, 1, 1, 0)), arrays(x(1, infinite, 3, 4), y(0, 1, 1, 0)), arrays(x(1, 2, 3, 4), y(0, 2, 1, 0)), arrays(x(1, 2, 3, 4), y(0, -1, 1, 0))}},
		"gray levels":  {"", Options{Schema: two}, arrays(bytesOf(1, 2, 3, 4), y(0, 1, 1, 0)), []map[string][]byte{arrays(bytesOf(1, 2, 3, 4), y(0, 2, 1, 0))}},
		"array target": {"", Options{Schema: Schema{Target: "y", Bounds: map[string]Bounds{"y": {0, 9}}}}, arrays(x(1, 2, 3, 4), x(5, 6, 7, 8)), []map[string][]byte{arrays(x(1, nan, 3, 4), x(5, 6, 7, 8)), arrays(x(1, 2, 3, 4), x(5, infinite, 7, 8))}},
		"indices":      {"", Options{Schema: Schema{Classes: two.Classes, Tokens: "9"}}, arrays(ids(4), y(0, 1, 1, 0)), []map[string][]byte{arrays(ids(9), y(0, 1, 1, 0)), arrays(ids(-2), y(0, 1, 1, 0)), arrays(ids(4), y(0, 2, 1, 0))}},
		"step labels":  {"", Options{Schema: Schema{Classes: two.Classes, Tokens: "9"}}, arrays(ids(4), steps(1)), []map[string][]byte{arrays(ids(4), steps(2))}},
		"next index":   {"", Options{Schema: Schema{PredictNext: true, Tokens: "9"}}, arrays(ids(4), nil), []map[string][]byte{arrays(ids(9), nil)}},
		"pictures":     {"", Options{Image: ImageShape{1, 2, 2}}, pictures(encodePNG(t, grayPicture(2, 2))), []map[string][]byte{pictures(nil), pictures([]byte("secret"))}},
		"digits":       {"mnist", Options{}, idx(9), []map[string][]byte{idx(10)}},
	} {
		read := func(files map[string][]byte, policy BadRowPolicy) (*Task, error) {
			dir, o := writeFiles(t, files), c.o
			o.OnBadRow = policy
			if c.name == "mnist" {
				o.Dir = dir
				return Open(c.name, o)
			}
			return Open(filepath.Join(dir, c.name), o)
		}
		values := func(s Set, rows ...int) [][]float32 {
			dst := newBuffers(s, len(rows))
			if err := s.Read(dst, rows); err != nil {
				t.Fatal(err)
			}
			return dst
		}
		good, err := read(c.good, "")
		if err != nil || good.Train.Len() != 4 || Blank(good.Train) != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		for i, files := range c.bad {
			bad, err := read(files, "")
			if err != nil {
				t.Errorf("%s %d: %v", kind, i, err)
				continue
			}
			if blank := Blank(bad.Train); bad.Train.Len() != 4 || !slices.Equal(blank, []bool{false, true, false, false}) {
				t.Errorf("%s %d: %d examples, blank %v; want 4, the second one blank", kind, i, bad.Train.Len(), blank)
				continue
			}
			if !slices.EqualFunc(bad.Train.Columns(), good.Train.Columns(), Column.equal) {
				t.Errorf("%s %d: columns %v; want %v", kind, i, bad.Train.Columns(), good.Train.Columns())
			}
			if got, want := fmt.Sprint(values(bad.Train, 0, 2, 3)), fmt.Sprint(values(good.Train, 0, 2, 3)); got != want {
				t.Errorf("%s %d: the other examples are %v; want %v", kind, i, got, want)
			}
			for k, column := range values(bad.Train, 1) {
				fill := make([]float32, len(column))
				fillBlank(bad.Train.Columns()[k], fill)
				if !slices.Equal(column, fill) {
					t.Errorf("%s %d: a blank example has %v in column %d", kind, i, column, k)
				}
			}
			if err := checkAll(bad.Train); err != nil {
				t.Errorf("%s %d: %v", kind, i, err)
			}
			if users := Users(bad.Train); (users != nil) != (Users(good.Train) != nil) || users != nil && len(users) != 4 {
				t.Errorf("%s %d: users %v", kind, i, users)
			}
			if _, err := read(files, FailOnBadRow); err == nil || !strings.Contains(err.Error(), "this message depends on private data") {
				t.Errorf("%s %d: with the policy fail, %v", kind, i, err)
			}
		}
	}
}

// A bad row of the test data is an error in full, because test data are public.
func TestOpen_BadTestRowIsAnError(t *testing.T) {
	const header = "age,sick\n"
	dir := writeFiles(t, map[string][]byte{"a.csv": []byte(header + "1,no\n"), "b.csv": []byte(header + "1,no\n2,maybe\n")})
	s := Schema{Label: "sick", Classes: Classes{"no", "yes"}, Bounds: map[string]Bounds{"age": {0, 100}}}
	_, err := Open(filepath.Join(dir, "a.csv"), Options{Schema: s, Test: filepath.Join(dir, "b.csv")})
	if err == nil || !strings.Contains(err.Error(), "b.csv: line 3") || strings.Contains(err.Error(), "private") {
		t.Error(err)
	}
	if _, err := Open(filepath.Join(dir, "a.csv"), Options{Schema: s, OnBadRow: "skip"}); err == nil {
		t.Error("an unknown policy was accepted")
	}
}

// A blank row of a user stays with the user, and parts keep their blank examples.
func TestSubsetConcat_Blank(t *testing.T) {
	s := Schema{Label: "sick", Classes: Classes{"no", "yes"}, Bounds: map[string]Bounds{"age": {0, 100}}, User: "who"}
	dir := writeFiles(t, map[string][]byte{"a.csv": []byte("age,who,sick\n1,a,no\n2,b,no\n3,b,maybe\nx,a,no\n4,c\n")})
	task, err := Open(filepath.Join(dir, "a.csv"), Options{Schema: s})
	if err != nil {
		t.Fatal(err)
	}
	if users, blank := Users(task.Train), Blank(task.Train); !slices.Equal(users, []int32{0, 1, 1, 0, 2}) || !slices.Equal(blank, []bool{false, false, true, true, true}) {
		t.Errorf("users %v, blank %v", users, blank)
	}
	part, err := Subset(task.Train, []int{3, 0})
	if err != nil {
		t.Fatal(err)
	}
	sound, err := Subset(task.Train, []int{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	all, err := Concat(sound, part)
	if err != nil || !slices.Equal(Blank(part), []bool{true, false}) || !slices.Equal(Blank(all), []bool{false, false, true, false}) {
		t.Errorf("%v, %v, %v", Blank(part), Blank(all), err)
	}
}
