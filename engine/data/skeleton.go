package data

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dptrain/dptrain/internal/setting"
)

// SkeletonOptions are the choices for a schema skeleton.
type SkeletonOptions struct {
	// Public declares that the file is public. The skeleton then contains bounds, words and
	// classes from its rows. Otherwise it is a function of the names of the columns only, which
	// are public because every message and report shows them.
	Public bool
	// Label is the column with the classes, and Target the column with a number to predict. At
	// most one of them is given.
	Label, Target string
	// Scaled receives the names of the columns that the schema of a public table scales, if there are
	// any.
	Scaled func(columns []string)
}

// SchemaSkeleton returns the text of a schema file for a table, in YAML, for the user to finish. If
// the file is private, the user describes each column; otherwise the user chooses at most the
// column to predict.
func SchemaSkeleton(file string, o SkeletonOptions) (string, error) {
	if o.Label != "" && o.Target != "" {
		return "", errors.New("a label and a target are given, but a network predicts either a class or a number; leave one out")
	}
	if columnarFormat(file) == "" && extension(file) == ".jsonl" && !o.Public {
		return "", setting.Errorf("Options.Public", "%s: JSONL names the columns in the rows, and the rows are private; give a public file with the same keys and %v, or write the schema by hand like %s",
			file, setting.Named("Options.Public"), SchemaExample)
	}
	return readTableFile(file, func(t *columnarTable) (string, error) {
		return columnarSkeleton(t, file, o)
	}, func(r io.Reader, extension string) (string, error) {
		if extension == ".jsonl" {
			return publicJSONLSkeleton(r, file, o)
		}
		if !o.Public {
			return privateSkeleton(r, extension, o)
		}
		return publicCSVSkeleton(r, extension, file, o)
	})
}

// readAnyCSVHeader reads a header whose separator is that of the extension or, if the first line
// has none, another one that it has. separator is the line of the schema that names it, or "".
func readAnyCSVHeader(r io.Reader, extension string) (in *csvReader, header []string, separator string, err error) {
	b := bufio.NewReaderSize(r, 1<<16)
	start, _ := b.Peek(1 << 16)
	line, _, _ := strings.Cut(string(start), "\n")
	usual, _ := Schema{}.forFile("x" + extension).separator()
	if other := otherSeparator([]string{line}, usual); other != "" && !strings.ContainsRune(line, usual) {
		usual, separator = separators[other], "separator: "+other+"\n"
	}
	in, header, err = readCSVHeader(b, usual)
	return in, header, separator, err
}

// privateSkeleton describes a private CSV file. It reads the header and nothing after it, so no
// part of a row can change the result.
func privateSkeleton(r io.Reader, extension string, o SkeletonOptions) (string, error) {
	in, header, separator, err := readAnyCSVHeader(r, extension)
	// A quotation mark that is not closed makes rows a part of the header.
	if bad := (*badCSVRow)(nil); errors.As(err, &bad) || err == nil && in.count > 1 {
		return "", errors.New("the first line must name the columns, and its quotation marks are not in pairs around the names; correct it")
	}
	if err != nil {
		return "", err
	}
	names, err := columnNames(header, o)
	if err != nil {
		return "", err
	}
	return writePrivateSkeleton(names, make([]string, len(names)), separator, o), nil
}

// columnarSkeleton describes a columnar file. Of a private one it reads the names of the columns and
// no row.
func columnarSkeleton(t *columnarTable, file string, o SkeletonOptions) (string, error) {
	for k, name := range t.names {
		if err := checkNameForYAML(name); err != nil {
			return "", fmt.Errorf("the name of column %d %w", k+1, err)
		}
	}
	if named := o.Label + o.Target; named != "" && !slices.Contains(t.names, named) {
		return "", fmt.Errorf("the file has no column %q%s", named, suggestion(named, t.names))
	}
	_, refused := t.file.Columns()
	if !o.Public {
		return writePrivateSkeleton(t.names, refused, "", o), nil
	}
	l := &rowLayout{label: -1, user: -1, text: -1, pair: -1, target: -1, weight: -1, width: len(t.names)}
	columns := make([]*columnSummary, len(t.names))
	for k, name := range t.names {
		columns[k] = &columnSummary{name: name, refused: refused[k]}
		l.roles = append(l.roles, columnRole{InputColumn: InputColumn{Name: name}, ignore: refused[k] != ""})
	}
	rows := 0
	add := addRow(columns, &rows)
	err := t.each(l, func(_ int, row []string, problem error) error { return add(row, problem) })
	if err != nil {
		return "", err
	}
	return publicSkeleton(columns, rows, "", file, o)
}

// addRow returns a function that adds a row to the summaries of its columns and counts it.
func addRow(columns []*columnSummary, rows *int) func(row []string, problem error) error {
	return func(row []string, problem error) error {
		if problem != nil {
			return problem
		}
		*rows++
		for k, cell := range row {
			columns[k].add(cell)
		}
		return nil
	}
}

// writePrivateSkeleton writes the schema of a private table with these columns. refused has the
// reason why a column cannot be read, or "".
func writePrivateSkeleton(names, refused []string, separator string, o SkeletonOptions) string {
	var b strings.Builder
	b.WriteString(privateIntroduction)
	b.WriteString(separator)
	switch {
	case o.Target != "":
		fmt.Fprintf(&b, "target: %s  # give it bounds below\n", quoteYAML(o.Target))
	case o.Label != "":
		fmt.Fprintf(&b, "label: %s\nclasses: []  # their names in order, or their number n for the labels 0 to n-1\n", quoteYAML(o.Label))
	default:
		b.WriteString("label:       # the column with the classes\nclasses: []  # their names in order, or their number n for the labels 0 to n-1\n" +
			"# target:    # instead of label and classes: the column with a number to predict\n")
	}
	b.WriteString("# user:      # the column with the person that a row belongs to, for the unit of privacy user:COLUMN\n" +
		"# text:      # the column of text, for a network that reads text; see docs/own-data.md\n")
	for _, section := range []struct{ key, format string }{{"bounds", "  # %s: [LOW, HIGH]\n"}, {"dates", "  # %s: [2000-01-01, 2030-12-31]\n"}, {"vocabulary", "  # %s: []\n"}, {"ignore", "  # - %s\n"}} {
		fmt.Fprintf(&b, "\n%s:\n", section.key)
		for k, name := range names {
			switch {
			case refused[k] != "":
				if section.key == "ignore" {
					fmt.Fprintf(&b, "  - %s  # it %s\n", quoteYAML(name), refused[k])
				}
			case name == "" && section.key == "ignore":
				b.WriteString("  - \"\"  # a column without a name\n")
			case name == "" || name == o.Label || name == o.Target && section.key != "bounds":
			default:
				fmt.Fprintf(&b, section.format, quoteYAML(name))
			}
		}
	}
	return b.String()
}

const privateIntroduction = `# Schema for dptrain train. dptrain read only the names of the columns.
#
# Finish it from public knowledge, such as a code book, and not from the rows: the guarantee
# does not cover what you copy from them.
# 1. Write the name of the column to predict, as it is written below.
# 2. For every other column remove the "# " of one line: under bounds for numbers, under
#    dates for dates, under vocabulary for words, under ignore for a column that the network
#    does not need.
# 3. Replace LOW, HIGH and the dates by limits that hold for any row, such as [0, 120] for an age, and
#    write the words that may occur into [].
# Numbers outside the bounds are clamped. All words that are not listed count as one word.

`

// columnNames returns the names in a header. Until the label or the target is found in it, an error
// names columns by position only: a file without a header begins with a row.
func columnNames(header []string, o SkeletonOptions) ([]string, error) {
	if err := checkHeaderFormat(header, 0); err != nil {
		return nil, err
	}
	names := uniqueNames(header)
	for k, name := range names {
		if _, number := parseNumber(name); number && o.Label+o.Target == "" {
			return nil, setting.Errorf("label", "the first line must name the columns, and in column %d it has a number; add a first line with names, or, if it is a name, write %v or %v with the column to predict",
				k+1, setting.Named("label"), setting.Named("target"))
		}
		if err := checkNameForYAML(name); err != nil {
			return nil, fmt.Errorf("the name of column %d %w", k+1, err)
		}
	}
	for role, name := range map[string]string{"label": o.Label, "target": o.Target} {
		if name != "" && !slices.Contains(names, name) {
			return nil, missingColumn(names, role, name)
		}
	}
	return names, nil
}

// checkNameForYAML returns an error if a schema file cannot contain a column's name.
func checkNameForYAML(name string) error {
	const longestKey = 1000 // YAML allows 1024 characters
	switch {
	case !utf8.ValidString(name):
		return errors.New("is not UTF-8; save the file as UTF-8")
	case len(strconv.Quote(name)) > longestKey:
		return fmt.Errorf("has more than %d bytes; shorten it", longestKey)
	}
	return nil
}

// plainName matches names that YAML reads as text without quotation marks, except for yamlWords.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// yamlWords are read as a truth value or as nothing by some version of YAML.
var yamlWords = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// quoteYAML writes a text of valid UTF-8 as YAML, in one line. The escape sequences of Go are also
// those of YAML's double quotation marks.
func quoteYAML(text string) string {
	if plainName.MatchString(text) && !slices.Contains(yamlWords, strings.ToLower(text)) {
		return text
	}
	return strconv.Quote(text)
}

const (
	maxWords   = 100  // in a proposed vocabulary
	maxValues  = 1000 // proposed classes; a column with more different values may be forgotten
	minIDs     = 30   // whole numbers that are all different are IDs from this number on
	maxBounded = 1e299
)

// columnSummary summarises the cells of a public column.
type columnSummary struct {
	name                   string
	filled, empty, missing int             // cells; a missing one has no key in its row
	named                  int             // of empty: words such as NA, which are classes of a label
	names                  map[string]bool // these words
	numbers                int             // of filled
	dates                  int             // of filled
	first, last            time.Time       // of the dates
	refused                string          // why the column cannot be read; "" if it can
	nested                 bool            // some cell is an object or another value that no table contains
	huge                   int             // of numbers: beyond ±maxBounded
	low, high              float64         // of the other numbers
	plain, log, asinh      moments         // of the other numbers by each scale; log: of those above 0
	fractions              bool            // some number is not whole
	values                 map[string]bool // of the filled cells; nil if forgotten
	repeated               bool            // some value occurs twice
}

func (c *columnSummary) add(cell string) {
	if cell = strings.TrimSpace(cell); isMissing(cell) {
		c.empty++
		if cell != "" {
			if c.named++; c.names == nil {
				c.names = map[string]bool{}
			}
			c.names[strings.Clone(cell)] = true
		}
		return
	}
	c.filled++
	c.addDate(cell)
	if v, ok := parseNumber(cell); ok {
		c.addNumber(v)
	}
	if c.values == nil && c.filled == 1 {
		c.values = map[string]bool{}
	}
	if c.values == nil {
		return
	}
	if c.repeated = c.repeated || c.values[cell]; !c.values[cell] {
		c.values[strings.Clone(cell)] = true
	}
	if len(c.values) > maxValues && (c.repeated || c.fractions) {
		c.values = nil
	}
}

func (c *columnSummary) addDate(cell string) {
	t, err := new(InputColumn).parseDate(cell)
	if err != nil {
		return
	}
	if c.dates++; c.dates == 1 {
		c.first, c.last = t, t
	}
	if t.Before(c.first) {
		c.first = t
	}
	if t.After(c.last) {
		c.last = t
	}
}

// isDate reports whether every cell with a value is a date, and whole years lie around them.
func (c *columnSummary) isDate() bool {
	return c.dates > 0 && c.dates == c.filled && c.first.Year() > 0 && c.last.Year() < 9999
}

func (c *columnSummary) addNumber(v float64) {
	c.numbers++
	if math.Abs(v) > maxBounded {
		c.huge++
		return
	}
	if first := c.numbers-c.huge == 1; first {
		c.low, c.high = v, v
	}
	c.low, c.high = min(c.low, v), max(c.high, v)
	c.plain.add(v)
	c.asinh.add(ASinhScale.apply(v))
	if v > 0 {
		c.log.add(LogScale.apply(v))
	}
	c.fractions = c.fractions || v != math.Trunc(v)
}

// numeric reports whether the column is one of numbers, with exceptions such as "NA".
func (c *columnSummary) numeric() bool {
	return 10*c.numbers >= 9*c.filled && c.low < c.high
}

// unique reports whether each row has a value of its own.
func (c *columnSummary) unique() bool {
	return c.values != nil && !c.repeated && c.filled > 1 && c.empty+c.missing == 0
}

// words returns the values in order, without those that YAML cannot contain.
func (c *columnSummary) words() []string {
	var words []string
	for w := range c.values {
		if utf8.ValidString(w) {
			words = append(words, w)
		}
	}
	slices.SortFunc(words, func(a, b string) int {
		x, okX := parseNumber(a)
		y, okY := parseNumber(b)
		if okX && okY && x != y && c.numbers == c.filled {
			return cmp.Compare(x, y)
		}
		return strings.Compare(a, b)
	})
	return words
}

// classes returns the words of a label, of which NA may be one.
func (c *columnSummary) classes() []string {
	return append(c.words(), slices.Sorted(maps.Keys(c.names))...)
}

// reasonToIgnore returns why the column is no feature, or "".
func (c *columnSummary) reasonToIgnore() string {
	switch {
	case c.name == "":
		return "a column without a name"
	case c.refused != "":
		return "it " + c.refused
	case c.nested:
		return "some values are neither a text, nor a number, nor a list of whole numbers"
	case c.filled == 0:
		return "every cell is empty"
	case 2*(c.empty+c.missing+c.countBlank(c.numeric(), false)) > c.filled+c.empty+c.missing:
		return "most rows have no value"
	case len(c.values) == 1 && c.filled > 1:
		return "every cell that is not empty has the same value"
	case c.isDate():
		return ""
	case c.unique() && (!c.numeric() || !c.fractions && c.filled >= minIDs):
		return fmt.Sprintf("%d rows with %[1]d different values, as an ID has", c.filled)
	case c.numeric():
		return ""
	case len(c.values) == 0 || len(c.words()) == 0 || len(c.values) > maxWords || len(c.values) > 10 && 2*len(c.values) > c.filled:
		return "too many different words for a vocabulary; see user (persons) and text in docs/own-data.md"
	}
	return ""
}

// countBlank counts the cells that make a row blank in training.
func (c *columnSummary) countBlank(isNumber, isPredicted bool) int {
	n := 0
	if isNumber {
		n += c.filled - c.numbers
	}
	if isPredicted {
		n += c.empty - c.named + c.missing
	}
	return n
}

// remark returns a comment, after a separator, with the number of rows that become blank and of
// cells without a value; "" if there are none.
func (c *columnSummary) remark(separator string, isNumber, isPredicted bool) string {
	var parts []string
	if n := c.countBlank(isNumber, isPredicted); n > 0 {
		parts = append(parts, fmt.Sprintf("rows that become blank: %d", n))
	}
	if n := c.empty + c.missing; n > 0 && !isPredicted {
		parts = append(parts, fmt.Sprintf("without a value: %d", n))
	}
	if parts == nil {
		return ""
	}
	return separator + strings.Join(parts, "; ")
}

// publicCSVSkeleton describes a public CSV file.
func publicCSVSkeleton(r io.Reader, extension, file string, o SkeletonOptions) (string, error) {
	in, header, separator, err := readAnyCSVHeader(r, extension)
	if err != nil {
		return "", err
	}
	names, err := columnNames(header, o)
	if err != nil {
		return "", err
	}
	columns := make([]*columnSummary, len(names))
	for k, name := range names {
		columns[k] = &columnSummary{name: name}
	}
	rows := 0
	if err := in.each(addRow(columns, &rows)); err != nil {
		return "", err
	}
	return publicSkeleton(columns, rows, separator, file, o)
}

// publicJSONLSkeleton describes a public JSONL file. The columns are the keys of all rows.
func publicJSONLSkeleton(r io.Reader, file string, o SkeletonOptions) (string, error) {
	var columns []*columnSummary
	index := map[string]int{}
	rows := 0
	err := eachLine(r, maxLineLength, func(number int, line []byte, long bool, problem error) error {
		if long {
			return errLongLine(number, maxLineLength)
		}
		if problem != nil {
			return problem
		}
		rows++
		seen := map[string]bool{}
		err := eachMember(line, func(_ int, key, value string) error {
			k, known := index[key]
			if !known {
				if err := checkNameForYAML(key); err != nil {
					return fmt.Errorf("has a key that %w", err)
				}
				if strings.TrimSpace(key) != key {
					return fmt.Errorf("has the key %q; remove the space around it", key)
				}
				k, index[key] = len(columns), len(columns)
				columns = append(columns, &columnSummary{name: key, missing: rows - 1})
			}
			if seen[key] {
				return fmt.Errorf("has the key %q twice", key)
			}
			seen[key] = true
			text, ok := cellText(value)
			if !ok {
				columns[k].nested = true
				return nil
			}
			columns[k].add(text)
			return nil
		})
		if err != nil {
			return fmt.Errorf("line %d %w", number, err)
		}
		for _, c := range columns {
			if !seen[c.name] {
				c.missing++
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return publicSkeleton(columns, rows, "", file, o)
}

const publicIntroduction = `# Schema for dptrain train, from the %d rows of %s.
#
# Its bounds, words and classes come from these rows, so these rows must be public. Do not use a
# schema that was made from private rows: the guarantee does not cover it.
# Correct it by public knowledge. Numbers outside the bounds are clamped. All words that are
# not listed count as one word.

`

// publicSkeleton writes the schema of a public table.
func publicSkeleton(columns []*columnSummary, rows int, separator, file string, o SkeletonOptions) (string, error) {
	if rows == 0 {
		return "", errors.New("the file has no rows")
	}
	var b, bounds, scale, dates, vocabulary, ignore strings.Builder
	var scaled []string
	fmt.Fprintf(&b, publicIntroduction, rows, strconv.Quote(file))
	b.WriteString(separator)
	label, err := writePredicted(&b, columns, o)
	if err != nil {
		return "", err
	}
	for _, c := range columns {
		name, why := quoteYAML(c.name), c.reasonToIgnore()
		switch {
		case c == label:
		case why != "" && (o.Target == "" || c.name != o.Target):
			fmt.Fprintf(&ignore, "  - %s  # %s\n", name, why)
		case c.numeric():
			limits := roundOutwards(c.low, c.high)
			if p := c.proposeScale(); p.scale != "" && (o.Target == "" || c.name != o.Target) {
				limits = p.bounds
				scale.WriteString(p.line(name))
				scaled = append(scaled, c.name)
			}
			fmt.Fprintf(&bounds, "  %s: [%s, %s]  # here %s to %s%s\n", name, formatNumber(limits[0]), formatNumber(limits[1]),
				formatNumber(c.low), formatNumber(c.high), c.remark("; ", true, c.name == o.Target))
		case c.isDate():
			fmt.Fprintf(&dates, "  %s: [%d-01-01, %d-12-31]  # here %s to %s\n", name, c.first.Year(), c.last.Year(), c.first.Format(time.DateOnly), c.last.Format(time.DateOnly))
		default:
			fmt.Fprintf(&vocabulary, "  %s: %s%s\n", name, quoteList(c.words()), c.remark("  # ", false, false))
		}
	}
	for _, section := range []struct {
		key   string
		lines *strings.Builder
	}{{"bounds", &bounds}, {scaleComment, &scale}, {"dates", &dates}, {"vocabulary", &vocabulary}, {"ignore", &ignore}} {
		if section.lines.Len() > 0 {
			fmt.Fprintf(&b, "\n%s:\n%s", section.key, section.lines)
		}
	}
	if len(scaled) > 0 && o.Scaled != nil {
		o.Scaled(scaled)
	}
	return b.String(), nil
}

// writePredicted writes the column to predict, or a proposal as a comment. It returns the label,
// which is no feature.
func writePredicted(b *strings.Builder, columns []*columnSummary, o SkeletonOptions) (label *columnSummary, err error) {
	if o.Label+o.Target == "" {
		label = writeProposal(b, columns)
		return label, nil
	}
	k := slices.IndexFunc(columns, func(c *columnSummary) bool { return c.name == o.Label+o.Target })
	if k < 0 {
		return nil, fmt.Errorf("no row has the key %q", o.Label+o.Target)
	}
	c := columns[k]
	switch {
	case o.Target != "" && !c.numeric():
		return nil, setting.Errorf("target", "the target %q is not a column of different numbers; for words, write %v", c.name, setting.Named("label"))
	case o.Target != "":
		fmt.Fprintf(b, "target: %s\n", quoteYAML(c.name))
		return nil, nil
	case c.filled > 0 && len(c.values) == 0 || len(c.values) > maxValues:
		return nil, setting.Errorf("label", "the label %q has more than %d different values; for a number to predict, write %v", c.name, maxValues, setting.Named("target"))
	case len(c.classes()) < 2:
		return nil, fmt.Errorf("the label %q has fewer than 2 different values; give another column, or a file with all classes", c.name)
	}
	writeLabel(b, "", c)
	return c, nil
}

func writeLabel(b *strings.Builder, comment string, c *columnSummary) {
	fmt.Fprintf(b, "%slabel: %s%s\n", comment, quoteYAML(c.name), c.remark("  # ", false, true))
	fmt.Fprintf(b, "%sclasses: %s\n", comment, quoteList(c.classes()))
}

// writeProposal proposes the column that is named like a label, or else the last one that is not
// ignored. It returns the column if it is proposed as the label.
func writeProposal(b *strings.Builder, columns []*columnSummary) (label *columnSummary) {
	var likely *columnSummary
	named := false
	for _, c := range columns {
		isNamed := slices.Contains([]string{"label", "class", "target", "y"}, strings.ToLower(c.name))
		if c.reasonToIgnore() == "" && (isNamed || !named) {
			likely, named = c, isNamed
		}
	}
	const again = "run dptrain schema again with a label or a target"
	switch {
	case likely == nil:
		b.WriteString("# No column is likely to be the one to predict: " + again + ".\nlabel:\nclasses: []\n")
		return nil
	case likely.numeric() && (likely.fractions || len(likely.values) == 0 || len(likely.values) > 10):
		fmt.Fprintf(b, "# Proposed as the column to predict: remove the \"# \" of the next line. For another one,\n# %s.\n# target: %s\n", again, quoteYAML(likely.name))
		return nil
	}
	fmt.Fprintf(b, "# Proposed as the column to predict: remove the \"# \" of the next two lines. For another one,\n# %s.\n", again)
	writeLabel(b, "# ", likely)
	return likely
}

// quoteList writes texts as a YAML list.
func quoteList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = quoteYAML(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// formatNumber writes a finite number without an exponent if it is not long.
func formatNumber(v float64) string {
	if a := math.Abs(v); a == 0 || a >= 1e-4 && a < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// roundOutwards returns bounds around low < high that are multiples of 1, 2 or 5 times a power of
// ten, about a tenth of their difference.
func roundOutwards(low, high float64) Bounds {
	width := (high - low) / 10
	exponent := int(math.Floor(math.Log10(width)))
	digit := 10.0
	for _, d := range []float64{5, 2, 1} {
		if d*math.Pow10(exponent) >= width {
			digit = d
		}
	}
	multiple := func(round func(float64) float64, v float64) float64 {
		// Parsing gives the float nearest to the decimal number.
		v, _ = strconv.ParseFloat(fmt.Sprintf("%.0fe%d", digit*round(v/(digit*math.Pow10(exponent))), exponent), 64)
		return v + 0 // no -0
	}
	b := Bounds{multiple(math.Floor, low), multiple(math.Ceil, high)}
	if !(b[0] <= low && high <= b[1] && b.valid()) { // the numbers are tiny, or their difference is
		return Bounds{low, high}
	}
	return b
}
