package defaults

import "testing"

// The settings that docs/defaults.md lists: few records have a linear network, more records a
// convolutional one whose rate grows with μ·n and, where it is at its limit, whose lots do.
func TestForPictures(t *testing.T) {
	for _, c := range []struct {
		name   string
		facts  Facts
		want   Settings
		linear bool
	}{
		{"1,000 digits, ε = 1", Facts{Records: 1000, Classes: 10, Epsilon: 1, Delta: 1e-5}, Settings{0, 1000, 400, 0.1, "adam", 0.0085, 0.95, false, Reasons{}}, true},
		{"1,000 digits, ε = 8", Facts{Records: 1000, Classes: 10, Epsilon: 8, Delta: 1e-5}, Settings{0, 187, 400, 0.1, "momentum", 0.5, 0, false, Reasons{}}, false},
		{"15,000 digits, ε = 2", Facts{Records: 15000, Classes: 10, Epsilon: 2, Delta: 1e-5}, Settings{0, 1024, 400, 0.1, "momentum", 2.3, 0, false, Reasons{}}, false},
		{"30,000 digits, ε = 2", Facts{Records: 30000, Classes: 10, Epsilon: 2, Delta: 1e-5}, Settings{0, 1024, 600, 0.1, "momentum", 3, 0, false, Reasons{}}, false},
		{"MNIST", Facts{Records: 60000, Classes: 10, Epsilon: 2, Delta: 1e-6}, Settings{0, 1024, 800, 0.1, "momentum", 3, 0, false, Reasons{}}, false},
		{"40 million", Facts{Records: 40000000, Classes: 10, Epsilon: 2, Delta: 1e-9}, Settings{0, 1024, 800, 0.1, "momentum", 3, 0, false, Reasons{}}, false},
		{"one", Facts{Records: 1, Classes: 2, Epsilon: 1, Delta: 1e-5}, Settings{0, 1, 400, 0.1, "adam", 0.0085, 0.95, false, Reasons{}}, true},
	} {
		if got, linear := ForPictures(c.facts, Fixed{}); values(got) != c.want || linear != c.linear {
			t.Errorf("%s: %+v, linear %v; want %+v, %v", c.name, got, linear, c.want, c.linear)
		}
	}
	facts := Facts{Records: 1000, Classes: 10, Epsilon: 1, Delta: 1e-5}
	if _, linear := ForPictures(facts, Fixed{Hidden: true}); linear {
		t.Error("a network that the user names is linear")
	}
	facts.Records = 60000
	if got, linear := ForPictures(facts, Fixed{Linear: true, Steps: 100}); !linear || got.Steps != 100 || got.Lot != 60000 {
		t.Errorf("logistic with 100 lots: %+v, linear %v", got, linear)
	}
}
