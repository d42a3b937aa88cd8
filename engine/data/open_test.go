package data

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestOpen_UnknownName(t *testing.T) {
	checkOpenError(t, "mnits", Options{}, `did you mean "mnist"`, "digits, digit-edges, shapes, remarks, mnist, fashion-mnist, cifar10, cifar100")
	checkOpenError(t, "digit", Options{}, `did you mean "digits"`)
	checkOpenError(t, "quite/another/thing.csv", Options{}, "neither a named data set")
	checkOpenError(t, "", Options{}, "write data")
	if _, err := Open("quite another thing", Options{}); err == nil || strings.Contains(err.Error(), "did you mean") {
		t.Errorf("got %v; want an error without a suggestion", err)
	}
}

// An option that the data set does not use is an error.
func TestOpen_UnusedOptions(t *testing.T) {
	files := writeFiles(t, map[string][]byte{"a.csv": []byte(people), "b.bin": nil})
	csv := filepath.Join(files, "a.csv")
	checkOpenError(t, "digits", Options{Dir: "x"}, "Options.Dir")
	checkOpenError(t, "digits", Options{Test: "x"}, "Options.Test")
	checkOpenError(t, "digits", Options{Standardize: true}, "published")
	for _, s := range []Schema{
		{Label: "x"}, {Classes: Classes{"a", "b"}}, {Bounds: map[string]Bounds{"x": {0, 1}}}, {Vocabulary: map[string][]string{"x": {"a"}}},
		{Text: "x"}, {Tokens: byBytes}, {Words: []string{"a"}}, {Length: 1}, {PredictNext: true}, {Ignore: []string{"x"}}, {User: "x"},
	} {
		checkOpenError(t, "digits", Options{Schema: s}, "for CSV and JSONL files")
	}
	checkOpenError(t, "mnist", Options{Dir: files, Test: "x"}, "Options.Test")
	checkOpenError(t, csv, Options{Dir: files}, "Options.Dir")
	checkOpenError(t, csv, Options{Standardize: true}, "published")
	checkOpenError(t, filepath.Join(files, "b.bin"), Options{}, ".bin")
}

func TestSupported_DescribesEveryName(t *testing.T) {
	var described []string
	for _, d := range Supported() {
		described = append(described, d.Name)
		if d.Summary == "" || d.Source.String() == "" {
			t.Errorf("%s is not described", d.Name)
		}
	}
	for _, n := range namedSets {
		if !slices.Contains(described, n) {
			t.Errorf("%s is missing", n)
		}
	}
}

// publishedData returns a path in the folder of data sets that DPTRAIN_DATA names.
func publishedData(t *testing.T, elements ...string) string {
	root := os.Getenv("DPTRAIN_DATA")
	if root == "" {
		t.Skip("set DPTRAIN_DATA to a folder of real data sets to run this test")
	}
	path := filepath.Join(append([]string{root}, elements...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skip(err)
	}
	return path
}

func TestOpen_PublishedMNIST(t *testing.T) {
	task, err := Open("mnist", Options{Dir: publishedData(t, "mnist"), Standardize: true})
	if err != nil {
		t.Fatal(err)
	}
	train, test := task.Train.(*Pictures), task.Test.(*Pictures)
	if train.Len() != 60000 || test.Len() != 10000 {
		t.Fatalf("%d + %d pictures; want 60000 + 10000", train.Len(), test.Len())
	}
	hash := sha256.Sum256(encodeIDX(train.pixels, 60000, 28, 28))
	if got := hex.EncodeToString(hash[:]); got != "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db" {
		t.Errorf("the training pictures hash to %s", got)
	}
	count := make([]int, 10)
	for _, l := range train.labels {
		count[l]++
	}
	if want := []int{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}; !slices.Equal(count, want) {
		t.Errorf("classes of %v; want %v", count, want)
	}
	mean, deviation := meanAndDeviation(t, train, 0, 784)
	if !(math.Abs(mean) <= 1e-3) || !(math.Abs(deviation-1) <= 1e-3) {
		t.Errorf("standardized pixels have mean %.4f and deviation %.4f; want 0 and 1", mean, deviation)
	}
}

func TestOpen_PublishedCIFAR(t *testing.T) {
	task, err := Open("cifar10", Options{Dir: publishedData(t, "cifar10", "cifar10-images.zip"), Standardize: true})
	if err != nil {
		t.Fatal(err)
	}
	train := task.Train.(*Pictures)
	if train.Len() != 50000 || task.Test.Len() != 10000 || !slices.Equal(task.ClassNames, cifarClasses) {
		t.Fatalf("%d + %d pictures of %v", train.Len(), task.Test.Len(), task.ClassNames)
	}
	for c := range 3 { // the pictures may have been converted to JPEG
		mean, deviation := meanAndDeviation(t, train, c*1024, 1024)
		if !(math.Abs(mean) <= .02) || !(math.Abs(deviation-1) <= .02) {
			t.Errorf("channel %d: mean %.4f, deviation %.4f; want 0 and 1", c, mean, deviation)
		}
	}
}

// meanAndDeviation returns the mean and standard deviation of a part of a set's pixels.
func meanAndDeviation(t *testing.T, s Set, first, n int) (mean, deviation float64) {
	dst := newBuffers(s, 1)
	sum, squares := 0., 0.
	for row := range s.Len() {
		if err := s.Read(dst, []int{row}); err != nil {
			t.Fatal(err)
		}
		for _, v := range dst[0][first : first+n] {
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
	}
	total := float64(s.Len() * n)
	mean = sum / total
	return mean, math.Sqrt(squares/total - mean*mean)
}

func TestOpen_PublishedAdult(t *testing.T) {
	file := publishedData(t, "tabular", "adult.csv")
	task, err := Open(file, Options{Schema: Schema{
		Label:   "income-per-year",
		Classes: Classes{"<=50K", ">50K"},
		Bounds:  map[string]Bounds{"age": {17, 90}, "education-num": {1, 16}, "capital-gain": {0, 99999}, "capital-loss": {0, 5000}, "hours-per-week": {0, 100}},
		Vocabulary: map[string][]string{
			"sex":  {"Female", "Male"},
			"race": {"White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo"},
		},
		Ignore: []string{"fnlwgt", "workclass", "education", "marital-status", "occupation", "relationship", "native-country"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if width := task.Train.Columns()[0].Size(); task.Train.Len() != 32561 || width != 5+3+5 {
		t.Errorf("%d rows of %d features; want 32561 of 13", task.Train.Len(), width)
	}
	checkOpenError(t, file, Options{Schema: Schema{Label: "income-per-year", Classes: Classes{"<=50K", ">50K"}}}, "does not describe age, workclass, fnlwgt")
}
