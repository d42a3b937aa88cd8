package main

import "testing"

func TestDescribe(t *testing.T) {
	const revision = "0123456789abcdef0123456789abcdef01234567"
	for _, test := range []struct {
		moduleVersion, revision string
		modified                bool
		want                    string
	}{
		{"v1.2.3", revision, false, "v1.2.3"},
		{"v1.2.3-rc.1", "", false, "v1.2.3-rc.1"},
		{"v1.2.4-0.20260301100000-0123456789ab", revision, false, "0123456789ab"},
		{"v0.0.0-20260301100000-0123456789ab+dirty", revision, true, "0123456789ab-dirty"},
		{"v0.0.0-20260301100000-0123456789ab", "", false, "0123456789ab"},
		{"(devel)", revision, false, "0123456789ab"},
		{"(devel)", revision, true, "0123456789ab-dirty"},
		{"(devel)", "", false, "(devel)"},
		{"", "", false, "(devel)"},
		{"v1.2.3+dirty", revision, true, "v1.2.3-dirty"},
	} {
		if got := describe(test.moduleVersion, test.revision, test.modified); got != test.want {
			t.Errorf("describe(%q, %q, %v) is %q, want %q", test.moduleVersion, test.revision, test.modified, got, test.want)
		}
	}
}
