package settings

import (
	"testing"

	"github.com/dptrain/dptrain/engine/data"
)

// A rank reads the records that it computes, and all of them where the data are divided in another way.
func TestShard_OfFlags(t *testing.T) {
	for _, test := range []struct {
		change func(*Flags)
		want   data.Shard
	}{
		{func(f *Flags) {}, data.Shard{Rank: 1, Size: 3}},
		{func(f *Flags) { f.Ranks = 1 }, data.Shard{}},
		{func(f *Flags) { f.Record = "microbatch:4" }, data.Shard{Rank: 1, Size: 3, Examples: 4}},
		{func(f *Flags) { f.Record, f.UserExamples = "user:owner", 8 }, data.Shard{Rank: 1, Size: 3, Examples: 8, Users: true}},
		{func(f *Flags) { f.Record = "user" }, data.Shard{}}, // an error later
		{func(f *Flags) { f.ValidationSplit = 0.1 }, data.Shard{}},
		{func(f *Flags) { f.given["split"] = true }, data.Shard{}},
		{func(f *Flags) { f.given["crop"] = true }, data.Shard{}},
		{func(f *Flags) { f.ShowPrivate = true }, data.Shard{}},
	} {
		f := &Flags{Rank: 1, Ranks: 3, given: map[string]bool{}}
		f.Record = "example"
		test.change(f)
		if got := f.shard(); got != test.want {
			t.Errorf("%+v, want %+v", got, test.want)
		}
	}
}
