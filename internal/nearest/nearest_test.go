package nearest

import "testing"

func TestDistance_EditOperations(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"same", "same", 0},
		{"noise", "nosie", 1}, {"noise", "noisy", 1}, {"noise", "nose", 1}, {"kitten", "sitting", 3},
		{"ca", "abc", 3}, // 2 if a transposed pair could be edited again
	} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("from %q to %q: %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

func TestLikelyTypo_SimilarNamesOnly(t *testing.T) {
	choices := []string{"epsilon", "noise", "steps", "rate", "delta", "compare", "pld", "rdp"}
	for name, want := range map[string]string{
		"epsilom": "epsilon", "NOISE": "noise", "rats": "rate", "pdl": "pld", "stpe": "", "x": "", "": "", "completely": "",
	} {
		if got := LikelyTypo(name, choices); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestClosest_FewestEdits(t *testing.T) {
	known := []string{"conv1.weight", "conv2.bias", "fc.weight"}
	for name, want := range map[string]string{"conv1.wight": "conv1.weight", "fc": "fc.weight", "conv2.bais": "conv2.bias"} {
		if got := Closest(name, known); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
	if got := Closest("x", nil); got != "" {
		t.Errorf("among none: %q", got)
	}
}
