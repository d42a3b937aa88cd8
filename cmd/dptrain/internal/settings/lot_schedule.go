package settings

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// lotSchedule is a positive number for each lot, counted from 0: a public function of the lot's
// number.
type lotSchedule struct {
	text  string
	value float64 // of the first lot, and of all lots of a constant
	at    func(lot int) float64
}

// isConstant reports whether all lots have the same number.
func (s *lotSchedule) isConstant() bool { return s.at == nil }

// parseLotSchedule parses a number, linear:FROM->TO@STEPS or step:FROM,TO@LOT,….
//
// linear moves in equal steps from FROM in the first lot to TO after STEPS lots, and stays there.
// step has the number FROM in the first lots, and from lot LOT on, counted from 0, the next one.
func parseLotSchedule(text string) (*lotSchedule, error) {
	kind, rest, isSchedule := strings.Cut(text, ":")
	switch {
	case !isSchedule:
		value, err := parsePositive(text)
		return &lotSchedule{text: text, value: value}, err
	case kind == "linear":
		return parseLinear(text, rest)
	case kind == "step":
		return parseSteps(text, rest)
	}
	return nil, fmt.Errorf("%q is not a number above 0, linear:FROM->TO@STEPS or step:FROM,TO@LOT,…", text)
}

func parsePositive(text string) (float64, error) {
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(x > 0) || math.IsInf(x, 1) {
		return 0, fmt.Errorf("%q is not a finite number above 0", text)
	}
	return x, nil
}

// parseAt parses VALUE@LOT.
func parseAt(text string) (value float64, lot int, err error) {
	number, at, found := strings.Cut(text, "@")
	if value, err = parsePositive(number); err != nil {
		return 0, 0, err
	}
	lot, err = strconv.Atoi(strings.TrimSpace(at))
	if !found || err != nil || lot < 1 {
		return 0, 0, fmt.Errorf("%q needs the number of a lot of at least 1, as in %s@100", text, strings.TrimSpace(number))
	}
	return value, lot, nil
}

func parseLinear(text, rest string) (*lotSchedule, error) {
	first, last, found := strings.Cut(rest, "->")
	if !found {
		return nil, fmt.Errorf("%q is not linear:FROM->TO@STEPS", text)
	}
	from, err := parsePositive(first)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	to, steps, err := parseAt(last)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return &lotSchedule{text, from, func(lot int) float64 {
		if lot >= steps {
			return to
		}
		return from + (to-from)*float64(lot)/float64(steps)
	}}, nil
}

func parseSteps(text, rest string) (*lotSchedule, error) {
	parts := strings.Split(rest, ",")
	from, err := parsePositive(parts[0])
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	if len(parts) == 1 {
		return nil, fmt.Errorf("%q has one number: give step:FROM,TO@LOT,…, or the number alone", text)
	}
	values, lots := []float64{from}, []int{0}
	for _, part := range parts[1:] {
		value, lot, err := parseAt(part)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		if lot <= lots[len(lots)-1] {
			return nil, fmt.Errorf("%q: lot %d is not after lot %d; give the lots in order", text, lot, lots[len(lots)-1])
		}
		values, lots = append(values, value), append(lots, lot)
	}
	return &lotSchedule{text, from, func(lot int) float64 {
		i := len(lots) - 1
		for lots[i] > lot {
			i--
		}
		return values[i]
	}}, nil
}
