package engine

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/engine/data"
)

// Statistics with local steps are those of gradients of users, also where a user has more examples than
// a step: of the weights of the lot and of all examples that take part. They do not change the changes.
// A lot that does not release them reads no more examples than one without.
func TestLocalTraining_Statistics(t *testing.T) {
	c := localConfig(t)
	c.LocalTraining.Batch, c.Steps = 3, 2
	c.Sampling.Rate = 1
	statistics := []Statistic{Accuracy(1, 1), MeanLoss(3, 1), FeatureMeans(0, features, 2, 1), LotSize(1)}
	for i := range statistics {
		statistics[i].Every = 2
	}
	sums := func(c Config, lot int) (changes, statistics []int64, reads int) {
		c.Files.Ledger = filepath.Join(t.TempDir(), "ledger.jsonl")
		r := newRun(t, c)
		defer r.Close()
		if localTrainerOf(r) != nil {
			localTrainerOf(r).Train = &spiedReads{Set: c.Train, before: func() { reads++ }}
		}
		r.step = lot
		if err := r.sumLot(); err != nil {
			t.Fatal(err)
		}
		for i := range r.config.Statistics {
			statistics = append(statistics, r.lot.Sums.Sum(r.config.entryOf(i)).Integers...)
		}
		if localTrainerOf(r) != nil {
			changes = slices.Clone(r.lot.Mechanism.Vectors.Sums[0].Integers)
		}
		return changes, statistics, reads
	}
	with, gradients := c, c
	with.Statistics, gradients.Statistics = statistics, statistics
	gradients.LocalTraining = LocalTraining{}
	bare, _, bareReads := sums(c, 1)
	changes, got, reads := sums(with, 1)
	_, want, _ := sums(gradients, 1)
	if !slices.Equal(changes, bare) {
		t.Error("statistics change the users' changes")
	}
	if extra := 9 + 3; reads != bareReads+extra { // three users have four examples or more
		t.Errorf("%d reads with statistics, %d without, want %d more", reads, bareReads, extra)
	}
	for i, x := range want {
		if x == 0 || x != got[i] {
			t.Errorf("number %d of the statistics is %d, want %d", i, got[i], x)
		}
	}
	if _, none, reads := sums(with, 0); reads != bareReads || slices.ContainsFunc(none, func(x int64) bool { return x != 0 }) {
		t.Errorf("a lot without a release has %d reads, want %d, and the sums %v", reads, bareReads, none)
	}
}

// ownedPictures is batchNormConfig with ten users of three pictures and local steps.
func ownedPictures(t testing.TB) Config {
	c := batchNormConfig(t, 5)
	c.Train, c.Records = picturesOf(30, func(row int) int32 { return int32(row % 10) }), Records{Users: true, Examples: 3}
	c.LocalTraining = LocalTraining{Steps: 2, Rate: 0.1, Batch: 2}
	return c
}

// Batch normalization computes with the running statistics of the lot in all local steps. Its statistic
// is that of gradients of users, and a user changes the sums by its own contribution, exactly. A run
// that is resumed goes on with the running statistics.
func TestLocalTraining_BatchNorm(t *testing.T) {
	c := ownedPictures(t)
	sums := func(c Config) (changes, statistic []int64) {
		c.Files.Ledger = filepath.Join(t.TempDir(), "ledger.jsonl")
		r := newRun(t, c)
		defer r.Close()
		before := runningOf(t, r)
		if err := r.sumLot(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(runningOf(t, r), before) {
			t.Error("the running statistics change within a lot")
		}
		if localTrainerOf(r) != nil {
			changes = r.lot.Mechanism.Vectors.Sums[0].Integers
		}
		return changes, r.lot.Sums.Sum(r.config.entryOf(0)).Integers
	}
	gradients := c
	gradients.LocalTraining = LocalTraining{}
	changes, statistic := sums(c)
	if _, want := sums(gradients); !slices.Equal(statistic, want) {
		t.Errorf("the statistic is %v, and %v on gradients", statistic, want)
	}
	blank := func(alone bool) Config {
		other, isBlank := c, make([]bool, 30)
		for i := range isBlank {
			isBlank[i] = (i%10 == 4) != alone
		}
		other.Train = blankedSet{c.Train.(*data.Table), isBlank}
		return other
	}
	restChanges, restStatistic := sums(blank(false))
	ownChanges, ownStatistic := sums(blank(true))
	for i, x := range changes {
		if restChanges[i]+ownChanges[i] != x {
			t.Fatalf("element %d of the changes is %d with the user, %d without it, and it adds %d", i, x, restChanges[i], ownChanges[i])
		}
	}
	for i, x := range statistic {
		if restStatistic[i]+ownStatistic[i] != x || ownStatistic[i] == 0 {
			t.Fatalf("number %d of the statistic is %d with the user, %d without it, and it adds %d", i, x, restStatistic[i], ownStatistic[i])
		}
	}
	c.Files.CheckpointFolder = t.TempDir()
	r := newRun(t, c)
	before := runningOf(t, r)
	trainRun(t, r, nil)
	moved := runningOf(t, r)
	if slices.Equal(moved, before) {
		t.Error("the running statistics did not move")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if q := readLedger(t, c.Files.Ledger).Lots[0].Lot.Queries; len(q) != 2 || q[1].Group != batchStatisticsName {
		t.Errorf("the ledger states %+v", q)
	}
	c.Steps++
	resumed := resumeRun(t, c)
	if !slices.Equal(runningOf(t, resumed), moved) {
		t.Error("the resumed run has other running statistics")
	}
	trainRun(t, resumed, nil)
	if err := resumed.Close(); err != nil {
		t.Fatal(err)
	}
}
