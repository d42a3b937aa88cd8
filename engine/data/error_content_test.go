package data

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The test inserts a secret word and a secret number at every position of files of every kind:
// training files, test files and files for prediction. It excludes the first line of a table,
// because it names the columns. No error may contain the word or the number.
func TestOpen_ErrorsShowNoFileContent(t *testing.T) {
	const word, number = "secretl1", "271828" // the word is similar to the name of the label
	table := Schema{Label: "secretly", Classes: Classes{"no", "yes"}, Bounds: map[string]Bounds{"age": {0, 100}},
		Vocabulary: map[string][]string{"job": {"baker", "tailor"}}, User: "who"}
	text := Schema{Label: "secretly", Classes: Classes{"no", "yes"}, Text: "text", Tokens: "9", Length: 3}
	rows, lines := "10,baker,a,yes\n20,\"tailor\",b,no\n", "{\"text\": [1, 2], \"secretly\": \"yes\"}\n{\"text\": \"3 4\", \"secretly\": \"no\"}\n"
	picture := func(width int) []byte { return encodePNG(t, grayPicture(width, 2)) }
	x, y := encodeNPY("<f4", "False", "(2, 1)", float32(1), float32(2)), encodeNPY("<i4", "False", "(2,)", int32(0), int32(1))
	stored := func(files map[string][]byte) []byte {
		content, err := os.ReadFile(writeZipWithMethod(t, 0, files))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	arrays := map[string][]byte{"x_train.npy": x, "y_train.npy": y}
	classes := Schema{Classes: Classes{"0", "1"}}
	dir, trained := t.TempDir(), TrainedInput{Shape: []int{1, 2, 3}}
	for kind, of := range map[string]struct {
		modified string // the file into which the secrets are inserted
		from     int    // first position
		files    map[string][]byte
		name     string
		o        Options
	}{
		"a table":             {"a.csv", len("age,job,who,secretly\n"), map[string][]byte{"a.csv": []byte("age,job,who,secretly\n" + rows)}, "a.csv", Options{Schema: table}},
		"a table of no names": {"a.csv", 0, map[string][]byte{"a.csv": []byte(rows)}, "a.csv", Options{Schema: table}},
		"objects":             {"a.jsonl", 0, map[string][]byte{"a.jsonl": []byte(lines)}, "a.jsonl", Options{Schema: text}},
		"text":                {"a.txt", 0, map[string][]byte{"a.txt": []byte("1 2 3\n4 5\n")}, "a.txt", Options{Schema: Schema{Tokens: "9", Length: 3}}},
		"packed text":         {"a.txt.gz", 0, map[string][]byte{"a.txt.gz": gzipped(t, []byte("1 2 3\n4 5\n"))}, "a.txt.gz", Options{Schema: Schema{Tokens: "9", Length: 3}}},
		"a test part": {"b.csv", len("age,job,who,secretly\n"), map[string][]byte{"a.csv": []byte("age,job,who,secretly\n" + rows), "b.csv": []byte("age,job,who,secretly\n" + rows)},
			"a.csv", Options{Schema: table, Test: "b.csv"}},
		"objects to test":            {"b.jsonl", 0, map[string][]byte{"a.jsonl": []byte(lines), "b.jsonl": []byte(lines)}, "a.jsonl", Options{Schema: text, Test: "b.jsonl"}},
		"an array":                   {"x_train.npy", 0, arrays, ".", Options{Schema: classes}},
		"labels":                     {"y_train.npy", 0, arrays, ".", Options{Schema: classes}},
		"an array to test":           {"x_test.npy", 0, map[string][]byte{"x_train.npy": x, "y_train.npy": y, "x_test.npy": x, "y_test.npy": y}, ".", Options{Schema: classes}},
		"an array of a strange type": {"x_train.npy", 120, map[string][]byte{"x_train.npy": encodeNPY(word, "False", "(2, 1)", make([]byte, 50)), "y_train.npy": y}, ".", Options{Schema: classes}},
		"an archive":                 {"a.npz", 0, map[string][]byte{"a.npz": stored(arrays)}, "a.npz", Options{Schema: classes}},
		"pictures":                   {"b/1.png", 0, map[string][]byte{"a/1.png": picture(3), "b/1.png": picture(3)}, ".", Options{Image: ImageShape{1, 2, 3}}},
		"pictures of sizes":          {"b/1.png", 0, map[string][]byte{"a/1.png": picture(3), "b/1.png": picture(2718)}, ".", Options{Image: ImageShape{1, 2, 3}}},
		"pictures to test":           {"test/b/1.png", 0, map[string][]byte{"train/a/1.png": picture(3), "train/b/1.png": picture(3), "test/b/1.png": picture(3)}, ".", Options{}},
		"digits": {"train-images-idx3-ubyte", 0, map[string][]byte{"train-images-idx3-ubyte": encodeIDX([]byte{1, 2}, 2, 1, 1), "train-labels-idx1-ubyte": encodeIDX([]byte{1, 2}, 2),
			"t10k-images-idx3-ubyte": encodeIDX([]byte{1, 2}, 2, 1, 1), "t10k-labels-idx1-ubyte": encodeIDX([]byte{1, 2}, 2)}, "mnist", Options{Dir: "."}},
		"photographs": {"data_batch_1.bin", 0, map[string][]byte{"data_batch_1.bin": {1, 2, 3}}, "cifar10", Options{Dir: "."}},
	} {
		of.o.OnBadRow = FailOnBadRow
		t.Chdir(dir)
		folder := strings.ReplaceAll(kind, " ", "-")
		for name, content := range of.files {
			full := filepath.Join(folder, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(full, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Chdir(folder)
		whole, failures, step := of.files[of.modified], 0, 2
		marks := []string{word, number, `"` + word, word + `"`, "\n" + word + "\n", "," + word + ",", word + "\": "}
		if !utf8.Valid(whole) {
			marks, step = marks[:2], 1+len(whole)/16
		}
		for at := of.from; at <= len(whole); at += step {
			for _, mark := range marks {
				put := slices.Concat(whole[:at], []byte(mark), whole[at:])
				over := slices.Concat(whole[:at], []byte(mark), whole[min(len(whole), at+len(mark)):])
				for _, content := range [][]byte{put, over} {
					modified := filepath.FromSlash(of.modified)
					if err := os.Remove(modified); err != nil { // a new file is faster than new content
						t.Fatal(err)
					}
					if err := os.WriteFile(modified, content, 0o644); err != nil {
						t.Fatal(err)
					}
					_, err := Open(of.name, of.o)
					var unlabelled error
					if of.o.Dir == "" && of.o.Test == "" { // otherwise OpenUnlabeled reads the same files
						_, unlabelled = OpenUnlabeled(of.name, of.o, trained)
					}
					if err == nil && unlabelled == nil {
						continue
					}
					failures++
					if message := fmt.Sprint(err, unlabelled); strings.Contains(message, word) || strings.Contains(message, number) || strings.Contains(message, "2718") || strings.Contains(message, "\n") {
						t.Fatalf("%s: with %q at position %d: %q", kind, mark, at, message)
					}
				}
			}
		}
		if failures == 0 {
			t.Errorf("%s: no error occurred", kind)
		}
	}
}
