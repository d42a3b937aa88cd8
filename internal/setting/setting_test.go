package setting

import (
	"errors"
	"fmt"
	"testing"
)

func asFlag(r Ref) string { return "--" + r.String() }

// A description names settings as the command line does, whatever wraps the error, and changes no other
// part of the message.
func TestDescribe_NamesSettingsInWrappedErrors(t *testing.T) {
	inner := Errorf("bounds", "the bounds of %q are not given; write %v", "bounds", With("bounds", "x=LOW:HIGH"))
	outer := Errorf("data", "%v: %w; drop %v", With("data", "f.csv"), inner, Named("only"))
	for _, c := range []struct {
		err        error
		text, flag string
	}{
		{inner, `the bounds of "bounds" are not given; write bounds x=LOW:HIGH`, `the bounds of "bounds" are not given; write --bounds x=LOW:HIGH`},
		{fmt.Errorf("f.csv: %w", inner), `f.csv: the bounds of "bounds" are not given; write bounds x=LOW:HIGH`,
			`f.csv: the bounds of "bounds" are not given; write --bounds x=LOW:HIGH`},
		{errors.Join(errors.New("first"), inner), "first\n" + inner.Error(), "first\n" + Describe(inner, asFlag)},
		{outer, "data f.csv: " + inner.Error() + "; drop only", "--data f.csv: " + Describe(inner, asFlag) + "; drop --only"},
		{errors.New("plain"), "plain", "plain"},
		{nil, "", ""},
	} {
		if c.err != nil && c.err.Error() != c.text {
			t.Errorf("the library writes %q, want %q", c.err, c.text)
		}
		if got := Describe(c.err, asFlag); got != c.flag {
			t.Errorf("%q, want %q", got, c.flag)
		}
	}
}

// The type of the error names the setting, and the error wraps its cause.
func TestErrorf_WrapsItsCause(t *testing.T) {
	cause := errors.New("cause")
	err := fmt.Errorf("outer: %w", Errorf("Steps", "%d lots: %w", 0, cause))
	var found *Error
	if !errors.As(err, &found) || found.Setting != "Steps" || !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
}
