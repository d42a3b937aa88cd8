package data

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func rowTextSchema() Schema {
	day := func(text string) time.Time {
		d, err := time.Parse(time.DateOnly, text)
		if err != nil {
			panic(err)
		}
		return d
	}
	return Schema{Text: "*", PredictNext: true, Bounds: map[string]Bounds{"age": {0, 90}, "income": {-10, 1e6}}, Vocabulary: map[string][]string{"sex": {"Female", "Male"}},
		Dates: map[string]DateBounds{"joined": {day("2020-01-01"), day("2024-12-31")}}, DateFormat: "DD.MM.YYYY", Ignore: []string{"id"}, Length: 60}
}

// A row becomes a text: numbers and dates are within their bounds, and what the schema does not list is a question mark.
func TestOpen_RowsAsTexts(t *testing.T) {
	s := rowTextSchema()
	s.Missing = map[string]Missing{"income": MissingBlank}
	task, err := openWithTokenizer(t, "id,age,joined,sex,income\n7,39.0,03.02.2021,Male,50000\n8,120,01.01.1999,Unicorn,12.5\n9,,,,x\n", s, Options{OnBadRow: BlankBadRows})
	if err != nil {
		t.Fatal(err)
	}
	if got := task.Schema.Inputs; !slices.Equal(got, []string{"age", "joined", "sex", "income"}) || !slices.Equal(Blank(task.Train), []bool{false, false, true}) {
		t.Errorf("inputs %v, blank %v", got, Blank(task.Train))
	}
	template, err := task.Schema.RowTemplate()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := template.Example(), "age: 0, joined: 2020-01-01, sex: Female, income: -10"; got != want {
		t.Errorf("example %q, want %q", got, want)
	}
	text := func(cells ...string) (text string) {
		var line []byte
		for k, cell := range cells {
			if line, err = template.appendCell(line, k, cell); err != nil {
				t.Fatal(err)
			}
		}
		return string(line)
	}
	if got, want := text("39.0", "03.02.2021", "Male", "50000"), "age: 39, joined: 2021-02-03, sex: Male, income: 50000"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if got, want := text("120", "01.01.1999", "Unicorn", "12.5"), "age: 90, joined: 2020-01-01, sex: ?, income: 12.5"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if cells, ok := template.Parse("age: 39, joined: 2021-02-03, sex: ?, income: 12.50"); !ok || !slices.Equal(cells, []string{"39", "03.02.2021", "", "12.5"}) {
		t.Errorf("cells %q, %v", cells, ok)
	}
	for _, bad := range []string{"", "age: 39", "age: 91, joined: 2021-02-03, sex: Male, income: 1", "age: -1, joined: 2021-02-03, sex: Male, income: 1",
		"age: 39, joined: 2025-02-03, sex: Male, income: 1", "age: 39, joined: 2021-02-30, sex: Male, income: 1", "age: 39, joined: 2021-02-03, sex: Mule, income: 1",
		"age: 39, joined: 2021-02-03, sex: Male, income: ?", "age: 39, joined: 2021-02-03, sex: Male, income: 1, age: 3", "age: NaN, joined: 2021-02-03, sex: Male, income: 1",
		"sex: Male, age: 39, joined: 2021-02-03, income: 1", "age:  39, joined: 2021-02-03, sex: Male, income: 1", "age: 39, joined: 2021-02-03, sex: Male"} {
		if cells, ok := template.Parse(bad); ok {
			t.Errorf("%q is read as %q", bad, cells)
		}
	}
}

// What Parse returns is a row that becomes the same text again.
func TestRowTemplate_RoundTrip(t *testing.T) {
	for _, decimal := range []string{"", ","} {
		s := rowTextSchema()
		s.Decimal = decimal
		template, err := newRowTemplate(s, []string{"sex", "age", "income", "joined"})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 1))
		for range 2000 {
			income := fmt.Sprint(r.Float64() * 1e6)
			if decimal != "" {
				income = strings.Replace(income, ".", ",", 1)
			}
			row := []string{[]string{"Female", "Male", "other", "", "NA"}[r.IntN(5)], []string{"", fmt.Sprint(r.IntN(120) - 10)}[r.IntN(2)], income,
				fmt.Sprintf("%02d.%02d.%d", 1+r.IntN(28), 1+r.IntN(12), 2018+r.IntN(9))}
			write := func(row []string) string {
				var line []byte
				for k, cell := range row {
					if line, err = template.appendCell(line, k, cell); err != nil && (k != 1 || !isMissing(cell)) {
						t.Fatalf("%q: %v", row, err)
					}
				}
				return string(line)
			}
			if row[1] == "" {
				continue // blank: the schema of this test gives ages no other meaning
			}
			text := write(row)
			cells, ok := template.Parse(text)
			if !ok || write(cells) != text {
				t.Fatalf("%q gives %q, %v", text, cells, ok)
			}
		}
	}
}

func TestRowsAsTexts_Refuses(t *testing.T) {
	label, alone, comma := rowTextSchema(), rowTextSchema(), rowTextSchema()
	label.PredictNext, label.Label, label.Classes = false, "id", []string{"7", "8"}
	label.Ignore = nil
	alone.Bounds, alone.Dates, alone.Vocabulary, alone.Ignore = nil, nil, nil, []string{"*"}
	comma.Vocabulary["sex"] = []string{"Female, income: 3", "Male"}
	for want, s := range map[string]Schema{"writes each row as one text": label, "there are no features": alone, "which stands between columns": comma} {
		if _, err := openWithTokenizer(t, "id,age,joined,sex,income\n7,39.0,03.02.2021,Male,50000\n", s, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
	if _, err := (Schema{Text: "note"}).RowTemplate(); err == nil || !strings.Contains(err.Error(), "the texts are no rows of a table") {
		t.Errorf("a column of texts: %v", err)
	}
}
