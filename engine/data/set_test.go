package data

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// numberedTable returns a table of n examples. The j-th number of column k in example i is
// 1000k + 10i + j, and the label is i mod 7.
func numberedTable(t testing.TB, n, offset int, users []int32) *Table {
	columns := []Column{
		{Name: "a", Shape: []int{2, 3}},
		{Name: "b", Kind: Target},
		{Name: "y", Kind: Label, Classes: 7},
	}
	values := make([][]float32, 3)
	for i := offset; i < offset+n; i++ {
		for j := range 6 {
			values[0] = append(values[0], float32(10*i+j))
		}
		values[1] = append(values[1], float32(1000+10*i))
		values[2] = append(values[2], float32(i%7))
	}
	table, err := NewTable(columns, values, users)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func newBuffers(s Set, n int) [][]float32 {
	dst := make([][]float32, len(s.Columns()))
	for k, c := range s.Columns() {
		dst[k] = make([]float32, n*c.Size())
	}
	return dst
}

// checkNumbered checks that the rows of s are the examples want of numbered.
func checkNumbered(t *testing.T, s Set, rows, want []int) {
	t.Helper()
	dst := newBuffers(s, len(rows))
	if err := s.Read(dst, rows); err != nil {
		t.Error(err)
		return
	}
	for i, w := range want {
		for j := range 6 {
			if got := dst[0][6*i+j]; got != float32(10*w+j) {
				t.Errorf("row %d, number %d: %v; want %v", rows[i], j, got, 10*w+j)
			}
		}
		if dst[1][i] != float32(1000+10*w) || dst[2][i] != float32(w%7) {
			t.Errorf("row %d: target %v, label %v; want those of example %d", rows[i], dst[1][i], dst[2][i], w)
		}
	}
}

func TestSubsetConcat_ReadExamples(t *testing.T) {
	a, b := numberedTable(t, 50, 0, nil), numberedTable(t, 30, 50, nil)
	empty, err := Subset(a, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Concat(a, empty, b)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	order := rng.Perm(80)
	first, err := Subset(all, order[:33])
	if err != nil {
		t.Fatal(err)
	}
	rest, err := Subset(all, order[33:])
	if err != nil {
		t.Fatal(err)
	}
	again, err := Concat(first, rest)
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup // Read must be safe from several goroutines
	for worker := range 4 {
		wait.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(worker)))
			for range 50 {
				rows := make([]int, rng.IntN(40))
				direct := make([]int, len(rows))
				permuted := make([]int, len(rows))
				for i := range rows {
					rows[i] = rng.IntN(80)
					direct[i], permuted[i] = rows[i], order[rows[i]]
				}
				checkNumbered(t, all, rows, direct)
				checkNumbered(t, again, rows, permuted)
			}
		})
	}
	wait.Wait()
}

func TestRead_AllocatesNothing(t *testing.T) {
	table := numberedTable(t, 100, 0, nil)
	part, err := Subset(table, []int{5, 4, 3, 2, 1, 0})
	if err != nil {
		t.Fatal(err)
	}
	both, err := Concat(table, part)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]Set{"table": table, "subset": part, "concat": both, "pictures": drawDigits(0, 10)} {
		rows := []int{0, 5, 2, 2, 1}
		dst := newBuffers(s, len(rows))
		if n := testing.AllocsPerRun(200, func() {
			if err := s.Read(dst, rows); err != nil {
				t.Fatal(err)
			}
		}); n != 0 && !raceDetector {
			t.Errorf("%s: Read allocates %v times; want 0", name, n)
		}
	}
}

func TestRead_InvalidArguments(t *testing.T) {
	table := numberedTable(t, 10, 0, nil)
	part, err := Subset(table, []int{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	both, err := Concat(table, part)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]Set{"table": table, "subset": part, "concat": both, "pictures": drawDigits(0, 3)} {
		for _, row := range []int{-1, s.Len(), math.MaxInt} {
			if err := s.Read(newBuffers(s, 1), []int{row}); err == nil {
				t.Errorf("%s: example %d of %d was read", name, row, s.Len())
			}
		}
		if err := s.Read(newBuffers(s, 2), []int{0}); err == nil {
			t.Errorf("%s: buffers for two examples were accepted for one", name)
		}
		if err := s.Read(newBuffers(s, 1)[:1], []int{0}); err == nil {
			t.Errorf("%s: a missing buffer was accepted", name)
		}
		if err := s.Read(append(newBuffers(s, 1), nil), []int{0}); err == nil {
			t.Errorf("%s: an extra buffer was accepted", name)
		}
		if err := s.Read(newBuffers(s, 0), nil); err != nil {
			t.Errorf("%s: no examples: %v", name, err)
		}
	}
}

func TestSubsetConcat_Users(t *testing.T) {
	owned := numberedTable(t, 4, 0, []int32{3, 0, 3, 1})
	part, err := Subset(owned, []int{2, 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := Users(part); !slices.Equal(got, []int32{3, 0}) {
		t.Errorf("subset has users %v; want [3 0]", got)
	}
	alone := numberedTable(t, 2, 0, nil)
	both, err := Concat(alone, owned, part)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Users(both), []int32{4, 5, 3, 0, 3, 1, 3, 0}; !slices.Equal(got, want) {
		t.Errorf("joined users %v; want %v", got, want)
	}
	both, err = Concat(alone, alone)
	if err != nil {
		t.Fatal(err)
	}
	if Users(both) != nil {
		t.Error("Concat of sets without users has users")
	}
}

func TestNewTable_Invalid(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	feature := Column{Name: "x", Shape: []int{2}}
	label := Column{Name: "y", Kind: Label, Classes: 3}
	for _, c := range []struct {
		want    string
		columns []Column
		values  [][]float32
		users   []int32
	}{
		{"at least one", nil, nil, nil},
		{"has values for 1", []Column{feature, label}, [][]float32{{1, 2}}, nil},
		{"not a multiple", []Column{feature}, [][]float32{{1, 2, 3}}, nil},
		{"has 2", []Column{feature, label}, [][]float32{{1, 2}, {0, 1}}, nil},
		{`example 1, column "x": the value is not a finite number`, []Column{feature}, [][]float32{{1, 2, 3, nan}}, nil},
		{"not a finite number", []Column{feature}, [][]float32{{1, inf}}, nil},
		{`example 0, column "y": the label is not a whole number from 0 to 2`, []Column{label}, [][]float32{{3}}, nil},
		{"not a whole number", []Column{label}, [][]float32{{-1}}, nil},
		{"not a whole number", []Column{label}, [][]float32{{.5}}, nil},
		{"not a whole number", []Column{label}, [][]float32{{nan}}, nil},
		{"not a whole number", []Column{{Name: "w", Kind: Index, Classes: 2}}, [][]float32{{2}}, nil},
		{"classes", []Column{{Name: "y", Kind: Label}}, [][]float32{{0}}, nil},
		{"classes", []Column{{Name: "y", Kind: Label, Classes: 1<<24 + 1}}, [][]float32{{0}}, nil},
		{"length of at least 1", []Column{{Name: "x", Shape: []int{0}}}, [][]float32{{}}, nil},
		{"at most 2^31-1 numbers", []Column{{Name: "x", Shape: []int{1 << 16, 1 << 16}}}, [][]float32{{}}, nil},
		{"unknown kind 9", []Column{{Name: "x", Kind: 9}}, [][]float32{{0}}, nil},
		{"2 users", []Column{label}, [][]float32{{0}}, []int32{0, 1}},
		{"negative user", []Column{label}, [][]float32{{0}}, []int32{-1}},
	} {
		_, err := NewTable(c.columns, c.values, c.users)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v; want %q", c.values, err, c.want)
		}
	}
	if _, err := NewTable([]Column{label}, [][]float32{{0, 2, 1}}, nil); err != nil {
		t.Error(err)
	}
}

func TestSubsetConcat_Invalid(t *testing.T) {
	table := numberedTable(t, 3, 0, nil)
	if _, err := Subset(table, []int{0, 3}); err == nil {
		t.Error("Subset accepted an example after the end")
	}
	if _, err := Subset(table, []int{0, -1}); err == nil {
		t.Error("Subset accepted a negative example")
	}
	if _, err := Concat(); err == nil {
		t.Error("Concat accepted no sets")
	}
	if _, err := Concat(numberedTable(t, 1, 0, []int32{math.MaxInt32}), table); err == nil {
		t.Error("Concat accepted user numbers above int32")
	}
	if _, err := Concat(table, drawDigits(0, 1)); err == nil {
		t.Error("Concat accepted sets with different columns")
	}
	column := func(change func(*Column)) Set {
		c := Column{Name: "y", Kind: Label, Shape: []int{2}, Classes: 3}
		change(&c)
		s, err := NewTable([]Column{c}, [][]float32{{0, 1, 1, 0}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for i, change := range []func(*Column){
		func(c *Column) { c.Name = "z" },
		func(c *Column) { c.Kind = Index },
		func(c *Column) { c.Shape = []int{1, 2} },
		func(c *Column) { c.Classes = 4 },
	} {
		if _, err := Concat(column(func(*Column) {}), column(change)); err == nil {
			t.Errorf("Concat accepted sets with different columns: case %d", i)
		}
	}
}

// Subset and Concat copy the slices of their arguments.
func TestSubsetConcat_CopyArguments(t *testing.T) {
	a, b := numberedTable(t, 4, 0, nil), numberedTable(t, 4, 4, nil)
	rows, parts := []int{3, 1}, []Set{a, b}
	sub, err := Subset(a, rows)
	if err != nil {
		t.Fatal(err)
	}
	both, err := Concat(parts...)
	if err != nil {
		t.Fatal(err)
	}
	rows[0], parts[1] = 0, a
	checkNumbered(t, sub, []int{0, 1}, []int{3, 1})
	checkNumbered(t, both, []int{1, 6}, []int{1, 6})
}

func TestNewPictures_Invalid(t *testing.T) {
	four := make([]byte, 4)
	for _, c := range []struct {
		want                    string
		channels, height, width int
		pixels                  []byte
		labels                  []int32
		classes                 int
		standardization         []Standardization
	}{
		{"length of at least 1", 0, 2, 2, four, []int32{0}, 2, nil},
		{"2 labels but 4 bytes", 1, 2, 2, four, []int32{0, 1}, 2, nil},
		{"1 labels but 5 bytes", 1, 2, 2, make([]byte, 5), []int32{0}, 2, nil},
		{"picture 0: the label", 1, 2, 2, four, []int32{2}, 2, nil},
		{"picture 0: the label", 1, 2, 2, four, []int32{-1}, 2, nil},
		{"2 standardizations for 1", 1, 2, 2, four, []int32{0}, 2, []Standardization{unitInterval, unitInterval}},
		{"not positive", 1, 2, 2, four, []int32{0}, 2, []Standardization{{}}},
	} {
		_, err := NewPictures(c.channels, c.height, c.width, c.pixels, c.labels, c.classes, c.standardization)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v; want %q", err, c.want)
		}
	}
}

func TestNewPictures_InvalidStandardization(t *testing.T) {
	for _, standardization := range []Standardization{{0, 0}, {0, -1}, {math.NaN(), 1}, {math.Inf(1), 1}, {0, 1e-300}, {0, math.NaN()}} {
		if _, err := NewPictures(1, 1, 1, []byte{1}, []int32{0}, 2, []Standardization{standardization}); err == nil {
			t.Errorf("the standardization %v was accepted", standardization)
		}
	}
}

// Every byte becomes its standardized number, also with concurrent reads.
func TestPictures_ReadEveryByte(t *testing.T) {
	pixels := make([]byte, 3*256)
	for i := range pixels {
		pixels[i] = byte(i)
	}
	for _, standardization := range [][]Standardization{nil, cifarStandardization} {
		p, err := NewPictures(3, 16, 16, pixels, []int32{1}, 2, standardization)
		if err != nil {
			t.Fatal(err)
		}
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				dst := newBuffers(p, 1)
				if err := p.Read(dst, []int{0}); err != nil {
					t.Error(err)
				}
				for i, got := range dst[0] {
					want := float32(float64(i%256) / 255)
					if standardization != nil {
						want = float32((float64(i%256)/255 - standardization[i/256].Mean) / standardization[i/256].Deviation)
					}
					if got != want {
						t.Errorf("byte %d of channel %d is %v; want %v", i%256, i/256, got, want)
					}
				}
			})
		}
		wait.Wait()
	}
}

func TestPictures_StandardizedByChannel(t *testing.T) {
	p, err := NewPictures(2, 1, 2, []byte{0, 255, 51, 102}, []int32{1}, 2, []Standardization{{0, 1}, {.5, .25}})
	if err != nil {
		t.Fatal(err)
	}
	dst := newBuffers(p, 1)
	if err := p.Read(dst, []int{0}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0, 1, (.2 - .5) / .25, (.4 - .5) / .25} {
		if !(math.Abs(float64(dst[0][i])-want) <= 1e-6) {
			t.Errorf("pixel %d is %v; want %v", i, dst[0][i], want)
		}
	}
}

// brokenSet is a custom set that violates the contract of Set.
type brokenSet struct{ *Table }

func (b brokenSet) Read(dst [][]float32, rows []int) error {
	err := b.Table.Read(dst, rows)
	for i, r := range rows {
		if r == 70 {
			dst[1][i] = float32(math.NaN())
		}
	}
	return err
}

func TestCheck_NotFiniteValues(t *testing.T) {
	table := numberedTable(t, 100, 0, nil)
	if err := Check(table); err != nil {
		t.Error(err)
	}
	part, err := Subset(brokenSet{table}, []int{3, 70})
	if err != nil {
		t.Fatal(err)
	}
	joined, err := Concat(table, part)
	if err != nil {
		t.Fatal(err)
	}
	for where, s := range map[string]Set{"example 70": brokenSet{table}, "example 1,": part, "example 101": joined} {
		if err := Check(s); err == nil || !strings.Contains(err.Error(), where) || !strings.Contains(err.Error(), `column "b"`) {
			t.Errorf("got %v; want the NaN of %s in column b", err, where)
		}
	}
}

// customUserSet is a custom set without columns or with invalid users.
type customUserSet struct {
	*Table
	columns []Column
	users   []int32
}

func (o customUserSet) Columns() []Column { return o.columns }
func (o customUserSet) Users() []int32    { return o.users }

func TestCheck_InvalidSets(t *testing.T) {
	table := numberedTable(t, 3, 0, nil)
	for want, s := range map[string]Set{
		"no column":     customUserSet{table, nil, nil},
		"2 users":       customUserSet{table, table.columns, []int32{0, 1}},
		"negative user": customUserSet{table, table.columns, []int32{0, 1, -1}},
		"classes":       customUserSet{table, []Column{{Name: "y", Kind: Label}}, nil},
	} {
		if err := Check(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want %q", err, want)
		}
	}
	if err := Check(customUserSet{table, table.columns, []int32{0, 1, 1}}); err != nil {
		t.Error(err)
	}
	if _, err := Subset(customUserSet{table, table.columns, []int32{0, 1}}, []int{2}); err == nil || !strings.Contains(err.Error(), "2 users") {
		t.Errorf("a subset of three examples with two users: %v", err)
	}
	if _, err := Concat(table, customUserSet{table, table.columns, []int32{0, 1}}); err == nil || !strings.Contains(err.Error(), "part 1: ") || !strings.Contains(err.Error(), "2 users") {
		t.Errorf("Concat of three examples with two users: %v", err)
	}
}

func BenchmarkRead(b *testing.B) {
	pictures := drawDigits(0, 4096)
	values := make([]float32, 4096*784)
	table, err := NewTable([]Column{{Name: "x", Shape: []int{784}}}, [][]float32{values}, nil)
	if err != nil {
		b.Fatal(err)
	}
	rows := rand.New(rand.NewPCG(1, 1)).Perm(4096)[:256]
	for name, s := range map[string]Set{"table": table, "pictures": pictures} {
		b.Run(name, func(b *testing.B) {
			dst := newBuffers(s, len(rows))
			b.SetBytes(int64(4 * len(dst[0])))
			for b.Loop() {
				if err := s.Read(dst, rows); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
