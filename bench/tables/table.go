package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/dptrain/dptrain/engine/data"
	"gopkg.in/yaml.v3"
)

// table is a table with a header. Its last column is what to predict.
type table struct {
	name   string
	held   bool // not used to fit the rules
	number bool // the last column is a number
	rows   [][]string
}

// exporter is the program whose environment has scikit-learn to export its tables.
const exporter = "dp-ebm"

// tables returns those of scikit-learn, Adult and the generated ones.
func (b *bench) tables() (list []*table, err error) {
	if b.python != "" {
		if err := b.install(exporter); err != nil {
			return nil, err
		}
		if err := run(exec.Command(b.interpreter(exporter), filepath.Join(b.peers, "tables.py"), "export", b.dir)); err != nil {
			return nil, err
		}
		for _, t := range []*table{{name: "breast cancer"}, {name: "wine"}, {name: "digits 8×8"}, {name: "diabetes", number: true},
			{name: "made 600×12", held: true}, {name: "made 3000×40, 6 classes", held: true}, {name: "friedman 1500", number: true, held: true}} {
			if t.rows, err = readCSV(filepath.Join(b.dir, t.name+".csv")); err != nil {
				return nil, err
			}
			list = append(list, t)
		}
	}
	if b.adult != "" {
		t := &table{name: "adult"}
		if t.rows, err = readCSV(b.adult); err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return append(list, generated()...), nil
}

func readCSV(file string) ([][]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.TrimLeadingSpace = true
	return r.ReadAll()
}

func writeCSV(file string, rows [][]string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	w := csv.NewWriter(f)
	if err := w.WriteAll(rows); err != nil {
		return err
	}
	return f.Close()
}

// splits are the random divisions of a table into training and test rows.
type splits struct {
	table  *table
	dir    string
	schema string
	n      int // training rows

	classes   int
	low, high float64 // bounds of a target
}

// file names the file of a part, train or test, of a split.
func (s *splits) file(part string, split int) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s%d.csv", part, split))
}

// split divides a table once for each run, and writes the files that all programs read.
func (b *bench) split(t *table) (*splits, error) {
	s := &splits{table: t, dir: filepath.Join(b.dir, "split")}
	if err := os.RemoveAll(s.dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	all := filepath.Join(s.dir, "all.csv")
	if err := writeCSV(all, t.rows); err != nil {
		return nil, err
	}
	options := data.SkeletonOptions{Public: true}
	last := t.rows[0][len(t.rows[0])-1]
	if t.number {
		options.Target = last
	} else {
		options.Label = last
	}
	text, err := data.SchemaSkeleton(all, options)
	if err != nil {
		return nil, err
	}
	s.schema = filepath.Join(s.dir, "schema.yaml")
	if err := os.WriteFile(s.schema, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if err := writeJSONSchema(text, filepath.Join(s.dir, "schema.json")); err != nil {
		return nil, err
	}
	schema, err := data.ReadSchema(s.schema)
	if err != nil {
		return nil, err
	}
	if bounds := schema.Bounds[last]; t.number {
		s.low, s.high = bounds[0], bounds[1]
	}
	rows := t.rows[1:]
	s.n = len(rows) * 4 / 5
	for i := range b.runs {
		order := rand.New(rand.NewPCG(uint64(i), 7)).Perm(len(rows))
		train, test := [][]string{t.rows[0]}, [][]string{t.rows[0]}
		for k, row := range order {
			switch {
			case k < s.n:
				train = append(train, rows[row])
			case !slices.Contains(rows[row], ""): // test rows without missing numbers
				test = append(test, rows[row])
			}
		}
		trainFile, testFile := s.file("train", i), s.file("test", i)
		if err := writeCSV(trainFile, train); err != nil {
			return nil, err
		}
		if err := writeCSV(testFile, test); err != nil {
			return nil, err
		}
		task, err := data.Open(trainFile, data.Options{Test: testFile, Schema: schema})
		if err != nil {
			return nil, err
		}
		s.classes = task.Classes
		base, err := baseline(task)
		if err != nil {
			return nil, err
		}
		b.add(result{Table: t.name, Program: "baseline", Run: i, Score: base})
	}
	return s, nil
}

// baseline is the score on the test rows of the most frequent class, or of the mean, of the
// training rows.
func baseline(task *data.Task) (score float64, err error) {
	train, err := lastColumn(task.Train)
	if err != nil {
		return 0, err
	}
	test, err := lastColumn(task.Test)
	if err != nil {
		return 0, err
	}
	guess := 0.0
	if task.Classes == 0 {
		for _, y := range train {
			guess += float64(y) / float64(len(train))
		}
		for _, y := range test {
			score -= (float64(y) - guess) * (float64(y) - guess) / float64(len(test))
		}
		return score, nil
	}
	counts := make([]int, task.Classes)
	for _, y := range train {
		counts[int(y)]++
	}
	guess = float64(slices.Index(counts, slices.Max(counts)))
	for _, y := range test {
		if float64(y) == guess {
			score += 1 / float64(len(test))
		}
	}
	return score, nil
}

// lastColumn returns the labels or targets of a set.
func lastColumn(s data.Set) ([]float32, error) {
	columns := s.Columns()
	dst, rows := make([][]float32, len(columns)), make([]int, s.Len())
	for i := range rows {
		rows[i] = i
	}
	for k, c := range columns {
		dst[k] = make([]float32, c.Size()*len(rows))
	}
	return dst[len(dst)-1], s.Read(dst, rows)
}

// writeJSONSchema writes a schema for the other programs.
func writeJSONSchema(text, file string) error {
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
		return err
	}
	encoded, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return os.WriteFile(file, encoded, 0o600)
}
