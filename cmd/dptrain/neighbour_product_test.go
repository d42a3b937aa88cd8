package main

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// publicDifferences lists everything in which the outputs of runs on two neighbouring data sets may
// differ: released values, the clock and random identifiers. TestNeighbours_Product compares every
// other byte.
var publicDifferences = []struct {
	file, text *regexp.Regexp // which files, and which text in them
	why        string
}{
	{regexp.MustCompile(`json|standard output`), regexp.MustCompile(`"validation_accuracy": ?[\d.e+-]+`), "released with noise"},
	{regexp.MustCompile(`json|standard output|checkpoint`), regexp.MustCompile(`"(run|prev|crc|weights|ledger_head)": ?"[0-9a-f]+"`), "a random identifier, and digests that depend on it and on the released weights"},
	{regexp.MustCompile(`json|standard output`), regexp.MustCompile(`"(seconds|examples_per_second|finished)": ?("[^"]*"|[\d.e+-]+)`), "the clock"},
	{regexp.MustCompile(`metrics.jsonl`), regexp.MustCompile(`"value":\[[-\d.e+,]+\]`), "released metrics; the deviation of their noise follows"},
	{regexp.MustCompile(`standard error`), regexp.MustCompile(`[-\d.e+]+%? ± `), "likewise"},
	{regexp.MustCompile(`json|standard output`), regexp.MustCompile(`"(test_accuracy|test_loss)": ?[-\d.e+]+|"confusion": ?\[[][\d,\s]+\]`), "released weights on public test data"},
	{regexp.MustCompile(`run.json|standard output`), regexp.MustCompile(`"calibration": \[[^\]]*\]|(?s)"roc": \{.*?\n  \}`), "likewise"},
	{regexp.MustCompile(`run.json|standard output`), regexp.MustCompile(`"weights": \[[^\]]*\]`), "released weights of a linear model"},
	{regexp.MustCompile(`run.json|standard output`), regexp.MustCompile(`(?s)"schema_private": \{.*?\n  \}`), "released shares of the records that do not fit the schema, and what follows from them"},
	{regexp.MustCompile(`standard error`), regexp.MustCompile(`test accuracy [\d.]+%`), "likewise"},
	{regexp.MustCompile(`standard error`), regexp.MustCompile(`[\dhms]+ left|[\d.e+]+ examples/s`), "the clock"},
	{regexp.MustCompile(`earlier checkpoint`), regexp.MustCompile(`"step":\d+`), "the clock decides when a checkpoint is written"},
}

// releasedWarning matches a warning that a run prints, and lists, if a released value is large.
var (
	releasedWarning = regexp.MustCompile(`(Warning: |(,\s*)?")[^"\n]*by the released shares of the private data[^"\n]*("|\n)`)
	emptyList       = regexp.MustCompile(`\[\s+\]`)
)

// example is an example of a small data set.
type example struct {
	user, label, note string
	weight            string
	value             float64
	broken            bool // it cannot be read
	empty             bool // its number has no value
	white             bool // in its place are white space only or, of a picture, a folder
	size              int  // of a picture
	name              string
}

// neighbourhood is a data set of 12 records with a unit of privacy.
type neighbourhood struct {
	format, unit string
	more         string // further flags
	records      [][]example
}

func newNeighbourhood(format, unit string) *neighbourhood {
	n := &neighbourhood{format: format, unit: unit}
	for i := range 12 {
		count := map[string]int{"example": 1, "microbatch:2": 2, "user:who": 1 + i%3}[unit]
		var record []example
		for j := range count {
			record = append(record, example{user: fmt.Sprint("u", i), label: []string{"no", "yes"}[i%2], note: "1 2 3", weight: fmt.Sprint(i % 4),
				value: float64(10*i%70 + j), size: 4, name: fmt.Sprintf("p%02d%d", i, j)})
		}
		n.records = append(n.records, record)
	}
	return n
}

// clone returns a copy whose records can be changed.
func (n *neighbourhood) clone() *neighbourhood {
	c := *n
	c.records = nil
	for _, r := range n.records {
		c.records = append(c.records, slices.Clone(r))
	}
	return &c
}

// attacks are the changes of a record, by name. They return false where the data cannot be changed
// like that.
var attacks = map[string]func(n *neighbourhood, at int) bool{
	"removed": func(n *neighbourhood, at int) bool { // with --population; the other order is an added record
		n.records = slices.Delete(n.records, at, at+1)
		return true
	},
	"blanked": func(n *neighbourhood, at int) bool {
		for j := range n.records[at] {
			n.records[at][j].broken = true
		}
		return true
	},
	"whitened": func(n *neighbourhood, at int) bool {
		for j := range n.records[at] {
			n.records[at][j].white = true
		}
		return n.format != "arrays" && n.unit != "user:who" // a row without a user belongs to another record
	},
	"lengthened": func(n *neighbourhood, at int) bool {
		for j := range n.records[at] {
			n.records[at][j].note = strings.Repeat("7 ", 3<<20)
		}
		return n.format != "arrays" && n.format != "pictures" && n.unit != "user:who"
	},
	"changed": func(n *neighbourhood, at int) bool {
		for j := range n.records[at] {
			e := &n.records[at][j]
			e.value, e.note, e.weight = 99, "8 8 8", "1e300"
			if n.format != "pictures" { // the folder and the name are the place of a picture
				e.label = map[string]string{"no": "yes", "yes": "no"}[e.label]
			}
		}
		return true
	},
	"resized": func(n *neighbourhood, at int) bool {
		r := &n.records[at]
		switch {
		case n.unit == "user:who":
			for j := range 6 { // more than any other user has
				e := (*r)[0]
				e.value = float64(20 + j)
				*r = append(*r, e)
			}
		case n.unit == "microbatch:2":
			*r = (*r)[:1]
			return at == len(n.records)-1 // the last record may be short
		case n.format == "arrays":
			return false
		case n.format == "txt":
			(*r)[0].note = strings.Repeat("4 5 ", 40)
		default:
			(*r)[0].note, (*r)[0].size = strings.Repeat("4 5\n", 40), 9
		}
		return true
	},
	"emptied": func(n *neighbourhood, at int) bool {
		for j := range n.records[at] {
			n.records[at][j].empty = true
		}
		return n.format == "csv" || n.format == "jsonl" || n.isColumnar()
	},
	"reweighted": func(n *neighbourhood, at int) bool {
		for j := range n.records[at] {
			n.records[at][j].weight = []string{"NaN", "secret", "-Inf", ""}[j%4]
		}
		return strings.Contains(n.more, "--weight")
	},
	"renamed": func(n *neighbourhood, at int) bool {
		for j := range n.records[at] {
			n.records[at][j].name = fmt.Sprint("z", j)
		}
		return n.format == "pictures"
	},
}

// checkpointOfTexts is a checkpoint whose tokenizer is smallTokenizer, and digitWords are words that it knows.
var (
	checkpointOfTexts, _ = filepath.Abs("../../models/pretrained/testdata/bert")
	digitWords           = strings.NewReplacer("1", "good", "2", "bad", "3", "film", "4", "plot", "5", "Fine.", "7", "very", "8", "dulls")
)

// readsPieces reports whether a tokenizer cuts the texts into pieces.
func (n *neighbourhood) readsPieces() bool { return strings.Contains(n.more, "ck") }

// isColumnar reports whether the data set is a table that is stored by column.
func (n *neighbourhood) isColumnar() bool { return n.format == "parquet" || n.format == "feather" }

// write writes the data set into the current folder, and returns the flags that read it.
func (n *neighbourhood) write(t *testing.T) (flags string) {
	t.Helper()
	all := slices.Concat(n.records...)
	var file bytes.Buffer
	flags = " --data data." + n.format + " --record " + n.unit
	const columns = " --label label --classes no,yes --bounds age=0:100 --ignore note"
	owner := ",who"
	if !strings.Contains(n.more, "--weight") {
		owner += ",weight"
	}
	flags += n.more
	if n.unit == "user:who" {
		owner, flags = strings.TrimPrefix(owner, ",who"), flags+" --user-examples 50"
	}
	described := columns
	if strings.Contains(n.more, "--text") {
		described = " --label label --classes no,yes --ignore age"
		if strings.Contains(n.more, "--text *") {
			described = " --bounds age=0:100 --vocabulary label=no|yes --ignore note"
		}
		if strings.Contains(n.more, "--pack") || strings.Contains(n.more, "--masked") {
			described = " --ignore age,label"
		}
		if strings.Contains(n.more, "--text-pair age") {
			described, owner = strings.TrimSuffix(described, " --ignore age"), strings.Replace(owner, ",", " --ignore ", 1)
		}
		if err := os.WriteFile("vectors.txt", []byte("1word 0.5 -1\n2word 2 0.25\n8word -1 3\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if n.readsPieces() {
			checkpoint, pieces := checkpointOfTexts, smallTokenizer
			switch {
			case strings.Contains(n.more, "--pack"):
				checkpoint, pieces = filepath.Join(filepath.Dir(checkpoint), "gpt2-packed"), letterTokenizer
			case strings.Contains(n.more, "--text *"):
				checkpoint = filepath.Join(filepath.Dir(checkpoint), "gpt2-next")
				pieces = strings.NewReplacer("n: ", "age: ", ", w: ", ", label: ", `"x"`, `"n"`).Replace(rowTokenizer)
			case strings.Contains(n.more, "--masked"):
				checkpoint, pieces = checkpoint+"-masked", maskingTokenizer
			}
			if err := os.CopyFS("ck", os.DirFS(checkpoint)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile("ck/tokenizer.json", []byte(pieces), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	switch n.format {
	case "csv":
		w := csv.NewWriter(&file)
		w.Write([]string{"age", "note", "who", "label", "weight"})
		for _, e := range all {
			if e.white {
				w.Flush()
				file.WriteString(" \t\n")
				continue
			}
			if e.broken {
				e.label = "secret"
			}
			age := fmt.Sprint(e.value)
			if e.empty {
				age = "NA"
			}
			note := e.note
			switch {
			case n.readsPieces():
				note, age = digitWords.Replace(note), digitWords.Replace(age)
			case strings.Contains(n.more, "--text"):
				note = strings.ReplaceAll(note, " ", "word ")
			}
			w.Write([]string{age, note, e.user, e.label, e.weight})
		}
		w.Flush()
		flags += described + owner
		if !strings.Contains(n.more, "--model") {
			flags += " --model logistic"
		}
		if err := os.WriteFile("public.csv", []byte("age,note,who,label,weight\n10,1,a,no,1\n20,2,b,yes,1\n30,3,c,yes,1\n40,4,d,no,1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	case "jsonl":
		for _, e := range all {
			if e.white {
				file.WriteString(" \t\n")
				continue
			}
			row := map[string]any{"age": e.value, "note": e.note, "who": e.user, "label": e.label, "weight": e.weight}
			if e.empty {
				row["age"] = nil
			}
			if e.broken {
				row["age"] = "secret"
			}
			text, err := json.Marshal(row)
			if err != nil {
				t.Fatal(err)
			}
			file.Write(append(text, '\n'))
		}
		flags += columns + owner + " --model logistic"
	case "parquet", "feather":
		var rows [][]string
		for _, e := range all {
			row := []string{fmt.Sprint(e.value), e.note, e.user, e.label, e.weight}
			switch {
			case e.white:
				row = []string{"\t", "", " ", "", " "}
			case e.broken:
				row[3] = "secret"
			case e.empty:
				row[0] = ""
			}
			rows = append(rows, row)
		}
		file.Write(columnarBytes(t, n.format, []string{"age", "note", "who", "label", "weight"}, rows))
		flags += columns + owner + " --model logistic"
	case "txt":
		for _, e := range all {
			if e.white {
				file.WriteString(" \t\n")
				continue
			}
			if e.broken {
				e.note = "secret"
			}
			fmt.Fprintln(&file, e.note, e.value/100*8)
		}
	case "arrays":
		var x, y []float64
		for _, e := range all {
			if e.broken {
				e.value = math.NaN()
			}
			x, y = append(x, e.value/100, 1), append(y, float64(len(e.label)-2))
		}
		array(t, "data.arrays/x_train.npy", "<f4", fmt.Sprintf("(%d, 2)", len(all)), x...)
		array(t, "data.arrays/y_train.npy", "|u1", fmt.Sprintf("(%d,)", len(all)), y...)
		return flags + " --classes no,yes --model logistic"
	case "pictures":
		for _, e := range all {
			picture := image.NewGray(image.Rect(0, 0, e.size, 4))
			for x := range e.size {
				picture.SetGray(x, x%4, color.Gray{uint8(2 * e.value)})
			}
			file.Reset()
			if err := png.Encode(&file, picture); err != nil {
				t.Fatal(err)
			}
			name := filepath.Join("data.pictures", e.label, e.name+".png")
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if e.white {
				if err := os.Mkdir(name, 0o755); err != nil {
					t.Fatal(err)
				}
				continue
			}
			content := file.Bytes()
			if e.broken {
				content = []byte("secret")
			}
			if err := os.WriteFile(name, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return flags + " --image 1x4x4 --model logistic"
	}
	if err := os.WriteFile("data."+n.format, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return flags
}

// outputs trains on a data set in a folder. It returns everything that is printed and written,
// without publicDifferences.
func (n *neighbourhood) outputs(t *testing.T, dir, more string) (seen map[string]string) {
	stops := strings.Contains(more, "--stop-when")
	t.Helper()
	t.Chdir(dir)
	line := "train" + n.write(t) + more + " --steps 3 --noise 1 --accountant rdp --threads 1 --device cpu --out run --json"
	commands := []string{line}
	if wholeProduct() {
		commands = append(commands, "train --resume run --steps 4 --json")
	}
	seen = map[string]string{}
	begun := time.Now()
	for _, line := range commands {
		stdout, stderr, code := dptrain(line)
		if code != exitcode.Done {
			t.Fatalf("%s: exit %d, %s", line, code, stderr)
		}
		seen["standard output"] += stdout
		seen["standard error"] += stderr
	}
	ended := time.Now()
	lots := 2 + len(commands)
	if stops && len(commands) == 1 {
		lots = 2 // of 3
	}
	last := fmt.Sprintf("lot-%012d.checkpoint", lots)
	err := filepath.WalkDir("run", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		// A coarse clock of the file system may be a little behind.
		if at := info.ModTime(); at.Before(begun.Add(-time.Second)) || at.After(ended.Add(time.Second)) {
			t.Errorf("%s has the time %v, which is not a time of the run", path, at)
		}
		if d.IsDir() {
			seen[path] = info.Mode().String()
			return nil
		}
		text := string(readFile(t, path))
		switch base := filepath.Base(path); {
		case base == "report.html" || base == "MODEL_CARD.md":
			return nil // see requireSameReport
		case base == "model.safetensors":
			length := binary.LittleEndian.Uint64([]byte(text))
			text = fmt.Sprintf("%d bytes, %s", len(text), text[8:8+length])
		case strings.HasSuffix(base, ".checkpoint"):
			if path = "run/last checkpoint"; base != last {
				path = "run/earlier checkpoint"
			}
			_, rest, _ := strings.Cut(text, "\n")
			length := binary.LittleEndian.Uint64([]byte(rest))
			text = fmt.Sprintf("%d bytes of numbers, %s", len(rest)-int(length), rest[8:8+length])
		case strings.Contains(base, "tfevents"):
			path, text = "run/tensorboard/events", maskEvents([]byte(text)) // its name contains the time
		}
		seen[path] = info.Mode().String() + " " + text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range seen {
		text = emptyList.ReplaceAllString(releasedWarning.ReplaceAllString(text, ""), "[]")
		for _, d := range publicDifferences {
			if d.file.MatchString(name) {
				text = d.text.ReplaceAllString(text, "#")
			}
		}
		seen[name] = text
	}
	return seen
}

// requireSameReport checks that report.html and MODEL_CARD.md follow from files that are compared: with
// those of the first run, the report of the second run has the same bytes.
func requireSameReport(t *testing.T, first, second string) {
	t.Helper()
	t.Chdir(second)
	for _, name := range []string{"run.json", "metrics.jsonl", "ledger.jsonl", "model.safetensors"} {
		if err := os.WriteFile("run/"+name, readFile(t, filepath.Join(first, "run", name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	runJSON(t, "report run")
	for _, name := range []string{"report.html", "MODEL_CARD.md"} {
		if !bytes.Equal(readFile(t, "run/"+name), readFile(t, filepath.Join(first, "run", name))) {
			t.Errorf("%s does not follow from the run's other files", name)
		}
	}
}

// releases are flags of a run that releases all metrics that the data have, has two groups, and is
// ended by a metric: by its second lot, because the condition holds for every value.
func (n *neighbourhood) releases() string {
	flags := " --group weights=*.weight,clip=0.5 --group biases=*.bias,clip=0.25,noise=2" +
		" --stop-when loss<=1e300" +
		" --metric loss:noise=1,every=2 --metric accuracy:noise=1,every=1 --metric lot-size:noise=2,every=1 --metric class-counts --metric clipped:noise=2,every=1"
	if n.format != "txt" {
		flags += " --metric feature-means:noise=1,every=1,clip=0.5"
	}
	return flags
}

// wholeProduct reports whether TestNeighbours_Product tests everything.
func wholeProduct() bool { return os.Getenv("DPTRAIN_NEIGHBOURS") == "all" }

// The content of a record, its size and its existence change nothing that a run prints or writes,
// except for publicDifferences: for every unit of privacy, every data format and every change of a
// record. By default each change is applied to the last record, in Poisson lots. With
// DPTRAIN_NEIGHBOURS=all it is applied to four records, or two with further flags, also in truncated,
// fixed and shuffled lots, and each run is resumed. Metrics, groups, batch normalization and a stop by a metric are tested with a record that
// is changed, and with DPTRAIN_NEIGHBOURS=all with every change.
func TestNeighbours_Product(t *testing.T) {
	samplings, records := []string{"poisson"}, []int{11}
	if wholeProduct() {
		samplings, records = []string{"poisson", "truncated", "fixed", "shuffle"}, []int{0, 3, 7, 11}
	}
	for _, format := range []string{"csv", "jsonl", "txt", "arrays", "pictures", "parquet", "feather"} {
		for _, unit := range []string{"example", "microbatch:2", "user:who"} {
			if unit == "user:who" && (format == "txt" || format == "arrays" || format == "pictures") {
				continue // these formats do not name users
			}
			if unit != "example" && (format == "parquet" || format == "feather") && !wholeProduct() {
				continue
			}
			for _, sampling := range samplings {
				t.Run(fmt.Sprintf("%s/%s/%s", format, unit, sampling), func(t *testing.T) {
					requireSameOutputs(t, newNeighbourhood(format, unit), sampling, records)
				})
				if format == "csv" && unit != "microbatch:2" && sampling == "poisson" {
					for _, text := range []string{" --text note --tokens ngrams:99 --length 20 --model bow", " --text note --tokens vectors:vectors.txt",
						" --text note --tokens tokenizer:ck/tokenizer.json --length 8 --model embbag", " --text note --length 8 --model hf:ck,lora=2",
						" --text note --text-pair age --length 8 --model hf:ck,lora=2", " --text note --masked 0.5 --length 8 --model hf:ck,lora=2",
						" --text note --next --pack --length 8 --model hf:ck,lora=2", " --text * --next --length 9 --model hf:ck,lora=2"} {
						if unit != "user:who" && strings.Contains(text, "--pack") {
							continue // train refuses it
						}
						t.Run(fmt.Sprintf("%s/%s/%s%s", format, unit, sampling, text), func(t *testing.T) {
							n := newNeighbourhood(format, unit)
							n.more = text
							requireSameOutputs(t, n, sampling, records)
						})
					}
				}
				if format != "csv" && !wholeProduct() || unit == "microbatch:2" || format != "csv" && format != "jsonl" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s/weights and local steps", format, unit, sampling), func(t *testing.T) {
					n := newNeighbourhood(format, unit)
					n.more = " --weight weight --weight-cap 2.5"
					if unit == "user:who" {
						n.more += " --local-steps 3 --local-lr 0.5 --local-batch 2"
					}
					if sampling == "poisson" {
						n.more += " --weight-min-mean 1"
					} else if unit == "user:who" {
						n.more += " --weight-mean 1"
					}
					requireSameOutputs(t, n, sampling, records)
				})
			}
		}
	}
}

// neighbourSettings are flags that change how a run computes or what it releases, each with rows of
// a CSV file.
var neighbourSettings = []string{" --optimizer disk:kappa=0.5+adam", " --mechanism laplace", " --model logistic --test public.csv", " --missing indicator",
	" --metric schema:noise=1,every=1", " --split 0.25 --split-seed 6", " --adjacency replace-one",
	" --metric loss:noise=1,every=1 --noise-schedule when:loss<=1e300->x1.5 --stop-at-epsilon 90",
	" --metric loss:group=gradient,scale=2 --metric class-counts:group=gradient,every=2",
	" --group weights=*.weight,share=3 --group biases=*.bias,rule=normalized,share=1 --metric feature-means:group=biases,scale=0.5"}

// requireSameOutputs compares the outputs of a data set with those of its neighbours.
func requireSameOutputs(t *testing.T, n *neighbourhood, sampling string, records []int) {
	common := " --lot 3 --validation-split 0.25 --validation-noise 1 --sampling " + sampling
	if strings.Contains(n.more, "--masked") { // train refuses held-out records
		common = " --lot 3 --sampling " + sampling
	}
	if n.format == "txt" {
		common += " --tokens 9 --length 4 --model gru:4"
	}
	settings := []string{"", " --population 20", n.releases()}
	if n.format == "pictures" { // the later flags replace the earlier ones
		settings = append(settings, " --image 1x8x8 --model digits-cnn:norm=batch --metric batch-statistics:noise=1", " --image 1x8x8 --model digits-cnn:norm=batch --metric batch-statistics:group=gradient,scale=2", " --crop 3x2 --augment flip --views 2")
	}
	if strings.Contains(n.more, "--text") {
		settings = settings[:2] // the other settings are for columns
	} else if n.format == "csv" {
		settings = append(settings, " --test public.csv --stop-when test-loss<=1e300")
	}
	if n.format == "csv" && n.unit == "example" && !strings.Contains(n.more, "--text") {
		settings = append(settings, neighbourSettings...)
	}
	if n.isColumnar() && !wholeProduct() {
		settings = settings[:1]
	}
	for _, more := range settings {
		counts := strings.Contains(more, "--population")
		if counts && sampling != "poisson" && sampling != "truncated" || strings.Contains(more, "laplace") && (sampling == "truncated" || strings.Contains(n.more, "min-mean")) ||
			strings.Contains(more, "noise-schedule") && sampling == "shuffle" || strings.Contains(more, ":group=") && strings.Contains(n.more, "min-mean") {
			continue // train refuses these
		}
		dir := t.TempDir()
		var first map[string]string // computed by the first subtest that runs
		stops := strings.Contains(more, "--stop-when")
		for name, attack := range attacks {
			if (name == "removed") != counts || (stops || strings.Contains(more, "norm=batch")) && name != "changed" && !wholeProduct() {
				continue
			}
			for i, at := range records {
				if more != "" && i < len(records)-2 {
					continue
				}
				attacked := n.clone()
				if !attack(attacked, at) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d%s", name, at, more), func(t *testing.T) {
					if first == nil {
						first = n.outputs(t, dir, common+more)
						if stops && !wholeProduct() && !strings.Contains(first["run/run.json"], `"stopped": true`) {
							t.Fatalf("the condition did not end the run: %s", first["run/run.json"])
						}
					}
					other := t.TempDir()
					second := attacked.outputs(t, other, common+more)
					for _, file := range slices.Sorted(maps.Keys(first)) {
						if b, there := second[file]; !there || b != first[file] {
							t.Errorf("%s without the change:\n%s\nwith it:\n%s", file, first[file], b)
						}
					}
					if len(first) != len(second) || len(first) < 12 {
						t.Errorf("%d and %d files", len(first), len(second))
					}
					requireSameReport(t, dir, other)
				})
			}
		}
	}
}

// releasedModel is the model that a choice releases.
var releasedModel = regexp.MustCompile(`"model": ?"[^"]*"`)

// A selection on neighbouring data sets states the same, except for the released choice.
func TestTunePrivate_OutputsOfNeighbouringData(t *testing.T) {
	released := regexp.MustCompile(`(?s)"best": \{.*?\n  \}|"flags": "[^"]*",\n  "score"|"(run|ledger_head)": "[0-9a-f]+"`)
	outputs := func(n *neighbourhood, more string) (seen map[string]string) {
		t.Helper()
		t.Chdir(t.TempDir())
		line := "tune" + n.write(t) + more + " --lot 3 --steps 2 --trials 2 --epsilon 8 --validation-split 0.25 --validation-noise 3 --threads 1 --device cpu --out selected --json"
		stdout, stderr, code := dptrain(line)
		if code != exitcode.Done {
			t.Fatalf("%s: exit %d, %s", line, code, stderr)
		}
		seen = map[string]string{"standard output": stdout, "standard error": stderr, "names": files(t, "selected")}
		for _, name := range []string{"selection.json", "model.json"} {
			seen[name] = string(readFile(t, "selected/"+name))
		}
		seen["size of the model"] = fmt.Sprint(len(readFile(t, "selected/model.safetensors")))
		for name, text := range seen {
			seen[name] = released.ReplaceAllString(text, "#")
		}
		return seen
	}
	for _, more := range []string{"", " --group weights=*.weight --group biases=*.bias"} {
		n := newNeighbourhood("csv", "user:who")
		first := outputs(n, more)
		for _, name := range []string{"blanked", "changed", "resized"} {
			attacked := n.clone()
			attacks[name](attacked, 11)
			for file, text := range outputs(attacked, more) {
				if text != first[file] {
					t.Errorf("%s%s: %s without the change:\n%s\nwith it:\n%s", name, more, file, first[file], text)
				}
			}
		}
	}
}
