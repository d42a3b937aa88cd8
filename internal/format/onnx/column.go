package onnx

// Column describes one column of a table: its words, or else its bounds.
type Column struct {
	Name string
	// Words have a position each. MissingWords share one more, after that of all other words.
	Words, MissingWords []string
	// Bounds are the limits of a number, or of the seconds of a date since 1970.
	Bounds
	Date  bool // the column also has a month and a day of the week
	Scale Scale
	// Missing is what a missing number or date is: NaN, if it is empty.
	Missing Missing
}

// Scale is the function of a number that is scaled by the function of its bounds.
type Scale string

// The scales. The empty string is the number itself.
const (
	Log   Scale = "log"
	ASinh Scale = "asinh"
)

// Missing is the encoding of a missing number.
type Missing string

// The encodings of a missing number.
const (
	Zero      Missing = "zero"
	Middle    Missing = "middle"
	Indicator Missing = "indicator" // the middle, and a feature of its own
)

const (
	secondsOfDay = 86400
	months       = 12
	weekdays     = 7
)

// encodeColumns makes features of the columns as training did.
func (w *writer) encodeColumns(columns []Column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		kind := int64(float64s)
		if c.Words != nil {
			kind = texts
		}
		names[i] = w.declareInput(c.Name, kind, []int{1})
	}
	var features []string
	for i, c := range columns {
		if c.Words != nil {
			features = append(features, w.encodeWord(names[i], c))
		} else {
			features = append(features, w.encodeNumber(names[i], c)...)
		}
	}
	return w.emit("Concat", features, attribute{"axis", 1})
}

// encodeWord writes the one-hot encoding of a word.
func (w *writer) encodeWord(x string, c Column) string {
	keys, positions := append([]string{}, c.Words...), make([]int, 0, len(c.Words))
	for i := range c.Words {
		positions = append(positions, i)
	}
	width := len(c.Words) + 1
	for _, word := range c.MissingWords {
		keys, positions, width = append(keys, word), append(positions, len(c.Words)+1), len(c.Words)+2
	}
	x = w.emitML("LabelEncoder", []string{x}, attribute{"keys_strings", keys}, attribute{"values_int64s", positions}, attribute{"default_int64", len(c.Words)})
	return w.oneHot(x, width)
}

// oneHot encodes positions of shape [examples, 1].
func (w *writer) oneHot(positions string, width int) string {
	values := w.floats("values", []int{2}, []float32{0, 1})
	return w.reshape(w.emit("OneHot", []string{positions, w.integers(width), values}, attribute{"axis", -1}), -1, width)
}

// encodeNumber writes the features of a number or a date.
func (w *writer) encodeNumber(x string, c Column) (features []string) {
	isMissing := w.emit("IsNaN", []string{x})
	number := x
	if c.Date {
		number = w.emit("Mul", []string{x, w.doubles(nil, secondsOfDay)})
	}
	switch {
	case c.Missing == "":
		number = w.scale(number, c)
	case c.Missing == Zero && !c.Date:
		number = w.scale(w.emit("Where", []string{isMissing, w.doubles(nil, 0), number}), c)
	default:
		number = w.emit("Where", []string{isMissing, w.scalar(0), w.scale(number, c)})
	}
	features = append(features, number)
	if c.Date {
		month, day := w.calendar(w.emit("Where", []string{isMissing, w.doubles(nil, 0), x}))
		known := w.castToFloat(w.emit("Not", []string{isMissing}))
		features = append(features, w.emit("Mul", []string{w.oneHot(month, months), known}),
			w.emit("Mul", []string{w.oneHot(day, weekdays), known}))
	}
	if c.Missing == Indicator {
		features = append(features, w.castToFloat(isMissing))
	}
	return features
}

// scale limits numbers to bounds and maps their scale to [-1, 1]. Without a scale its operations
// are those of training, so the bits are equal.
func (w *writer) scale(x string, c Column) string {
	x = w.emit("Clip", []string{x, w.doubles(nil, c.Low), w.doubles(nil, c.High)})
	low, high := w.doubles(nil, c.Low), w.doubles(nil, c.High)
	if c.Scale != "" {
		x, low, high = w.applyScale(x, c.Scale), w.applyScale(low, c.Scale), w.applyScale(high, c.Scale)
	}
	x = w.emit("Div", []string{w.emit("Sub", []string{x, low}), w.emit("Sub", []string{high, low})})
	return w.castToFloat(w.emit("Sub", []string{w.emit("Mul", []string{x, w.doubles(nil, 2)}), w.doubles(nil, 1)}))
}

// applyScale writes log(x), or asinh(x) = sign(x)·log(|x| + √(x²+1)), because runtimes have no
// Asinh of float64.
func (w *writer) applyScale(x string, s Scale) string {
	if s == Log {
		return w.emit("Log", []string{x})
	}
	root := w.emit("Sqrt", []string{w.emit("Add", []string{w.emit("Mul", []string{x, x}), w.doubles(nil, 1)})})
	log := w.emit("Log", []string{w.emit("Add", []string{w.emit("Abs", []string{x}), root})})
	return w.emit("Mul", []string{w.emit("Sign", []string{x}), log})
}

// calendar writes the month, from 0, and the day of the week, from Sunday, of days since 1970,
// as integers. It counts in years from March and cycles of 400 years, which have 146,097 days
// (the proleptic Gregorian calendar).
func (w *writer) calendar(days string) (month, weekday string) {
	day := w.emit("Floor", []string{days})
	of := func(kind, x string, v float64) string { return w.emit(kind, []string{x, w.doubles(nil, v)}) }
	quotient := func(x string, v float64) string { return w.emit("Floor", []string{of("Div", x, v)}) }
	remainder := func(x string, v float64) string {
		return w.emit("Sub", []string{x, of("Mul", quotient(x, v), v)})
	}
	integer := func(x string) string { return w.emit("Cast", []string{x}, attribute{"to", int64s}) }
	const fromMarchOfYear0 = 719468
	inCycle := remainder(of("Add", day, fromMarchOfYear0), 146097)
	leap := w.emit("Sub", []string{w.emit("Add", []string{w.emit("Sub", []string{inCycle, quotient(inCycle, 1460)}),
		quotient(inCycle, 36524)}), quotient(inCycle, 146096)})
	year := quotient(leap, 365)
	before := w.emit("Sub", []string{w.emit("Add", []string{of("Mul", year, 365), quotient(year, 4)}), quotient(year, 100)})
	inYear := w.emit("Sub", []string{inCycle, before})
	fromMarch := quotient(of("Add", of("Mul", inYear, 5), 2), 153)
	return integer(remainder(of("Add", fromMarch, 2), months)), integer(remainder(of("Add", day, 4), weekdays))
}
