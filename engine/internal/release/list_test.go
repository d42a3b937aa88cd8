package release

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// entries of every kind, in the order of a run's list.
func entriesOfEveryKind() List {
	query := func(name string) ledger.Query { return ledger.RoundedQuery(name, 1, 3, 1<<30) }
	return List{
		{Query: query("count"), Size: 1, When: WithLots, Every: 1, Use: MoveBound},
		{},
		{Query: query("third"), Size: 2, When: WithLots, Every: 3, Use: ReportMean},
		{Query: query("fourth"), Size: 1, When: WithLots, Every: 4, Use: MoveRunningStatistics},
		{Query: query("validation"), Size: 1, When: AfterLots, Records: 9, Use: ScoreWeights},
		{Query: query("moments"), When: BeforeLots, Records: 20, Use: ProjectFeatures},
	}
}

// EqualLots is the number of lots with the same queries, and the query of each entry is in the lots Every,
// 2·Every, ….
func TestList_EqualLots(t *testing.T) {
	list := entriesOfEveryKind()
	names := func(lot int) (all []string) {
		for _, q := range list.AppendQueries(nil, lot) {
			all = append(all, q.Group)
		}
		return all
	}
	for lot := range 24 {
		want := []string{"count"}
		if (lot+1)%3 == 0 {
			want = append(want, "third")
		}
		if (lot+1)%4 == 0 {
			want = append(want, "fourth")
		}
		if got := names(lot); !slices.Equal(got, want) {
			t.Errorf("lot %d releases %v, want %v", lot, got, want)
		}
		for i := range list.EqualLots(lot) {
			if !slices.Equal(names(lot+i), want) {
				t.Errorf("lot %d counts as equal to lot %d: %v, %v", lot+i, lot, names(lot+i), want)
			}
		}
	}
	if !list.LotsDiffer() || list[:2].LotsDiffer() {
		t.Error("lots differ only where an entry is not in all of them")
	}
}

// What is released before the lots comes first in a history, then what is released after them.
func TestList_AppendOnce(t *testing.T) {
	lots := entriesOfEveryKind().AppendOnce([]ledger.RepeatedLot{{Count: 5}})
	got := ""
	for _, l := range lots[1:] {
		got += fmt.Sprint(l.Count, l.Lot.Sampling.Policy, l.Lot.Sampling.Records, l.Lot.Queries[0].Group, ";")
	}
	if want := fmt.Sprint(1, ledger.FullBatch, 20, "moments", ";") + fmt.Sprint(1, ledger.FullBatch, 9, "validation", ";"); got != want {
		t.Errorf("a history ends with %s, want %s", got, want)
	}
}

// Each entry has its own stream of noise, also one that is not released: the numbers of a run's streams do
// not depend on what else it releases.
func TestSums_Streams(t *testing.T) {
	list := entriesOfEveryKind()
	sums := NewSums(list, nil, 7)
	for i := range list {
		if s := sums.Stream(i, 11); s.Vector != uint32(7+i) || s.Lot != 11 {
			t.Errorf("entry %d has stream %+v", i, s)
		}
	}
	if i := sums.Find(ProjectFeatures); i != 5 {
		t.Errorf("the moments are entry %d", i)
	}
	list[5].When = Never
	if i := list.Find(ProjectFeatures); i != -1 {
		t.Errorf("a run without moments has them as entry %d", i)
	}
}
