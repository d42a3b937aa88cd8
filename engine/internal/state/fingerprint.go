package state

import (
	"fmt"
	"strings"
)

// Fingerprint lists the public settings which must be equal for a run to be resumed: those of
// its data, its network, its mechanism and its optimizer. Of the data it has declared numbers and
// numbers of records only. Numbers of examples, shapes that follow from records and digests of
// records would distinguish data sets that the guarantee makes indistinguishable.
type Fingerprint []Entry

type Entry struct {
	Name  string `json:"what"`
	Value string `json:"is"`
}

// Value returns the value of the entry with a name.
func (f Fingerprint) Value(name string) (value string, ok bool) {
	for _, e := range f {
		if e.Name == name {
			return e.Value, true
		}
	}
	return "", false
}

// Differences describes how the fingerprint of a saved run differs from this one, in one line;
// "" where they are equal.
func (f Fingerprint) Differences(saved Fingerprint) string {
	values := map[string]string{}
	for _, e := range f {
		values[e.Name] = e.Value
	}
	var lines []string
	for _, e := range saved {
		switch value, ok := values[e.Name]; {
		case !ok:
			lines = append(lines, fmt.Sprintf("%s is missing (it was %s)", e.Name, e.Value))
		case value != e.Value:
			lines = append(lines, fmt.Sprintf("%s is %s (it was %s)", e.Name, value, e.Value))
		}
		delete(values, e.Name)
	}
	for _, e := range f {
		if _, isNew := values[e.Name]; isNew {
			lines = append(lines, fmt.Sprintf("%s is new (%s)", e.Name, e.Value))
		}
	}
	return strings.Join(lines, "; ")
}
