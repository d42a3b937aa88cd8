package settings

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/models"
)

// blankPictures are records of a data set of which only the size is known.
type blankPictures struct {
	records int
	shape   []int
}

func (b blankPictures) Len() int { return b.records }

func (b blankPictures) Columns() []data.Column {
	return []data.Column{
		{Name: "image", Kind: data.Feature, Shape: b.shape, ElementType: data.Bytes},
		{Name: "label", Kind: data.Label, Classes: 10},
	}
}

func (b blankPictures) Read(dst [][]float32, _ []int) error {
	for _, d := range dst {
		clear(d)
	}
	return nil
}

// presetHistory returns what a run of a preset releases, as its ledger states it. A preset with a
// limit on ε ends at the last lot that the preset's accountant permits.
func presetHistory(t *testing.T, p models.Preset) (ledger.History, *Flags) {
	t.Helper()
	var line []string
	shape := []int{1, 28, 28}
	for _, f := range p.Flags {
		if f.Name != "freeze" && f.Name != "fresh" { // they need a file of weights, and change no cost
			line = append(line, "--"+f.Name+"="+f.Value)
		}
		if f.Name == "data" && f.Value == "cifar10" {
			shape = []int{3, 32, 32}
		}
	}
	flags := resolved(t, strings.Join(line, " "))
	spec, err := New(flags, &data.Task{Name: p.Name, Train: blankPictures{p.Records, shape}, Classes: 10, Private: true})
	if err == nil {
		err = spec.Calibrate()
	}
	if err != nil {
		t.Fatal(p.Name, err)
	}
	h := spec.Config.PlannedHistory()
	if flags.StopAtEpsilon == 0 {
		return h, flags
	}
	lots := slices.IndexFunc(h.Lots, func(l ledger.RepeatedLot) bool { return l.Count > 1 })
	planned := h.Lots[lots].Count
	first, last := 0, planned+1 // the limit permits first lots and not last ones
	for last-first > 1 {
		h.Lots[lots].Count = (first + last) / 2
		if costOf(t, h, flags.Accountant) <= flags.StopAtEpsilon {
			first = h.Lots[lots].Count
		} else {
			last = h.Lots[lots].Count
		}
	}
	if h.Lots[lots].Count = first; first == 0 || first > planned-1 {
		t.Errorf("%s: %d of %d lots are within ε = %v: the limit does not end the run", p.Name, first, planned, flags.StopAtEpsilon)
	}
	return h, flags
}

func costOf(t *testing.T, h ledger.History, name string) float64 {
	t.Helper()
	g, err := accountant.Epsilon(h, 1e-5, name)
	if err != nil {
		t.Fatal(err)
	}
	return g.Epsilon
}

// Each ε that dptrain presets prints is that of the accountant which it names, rounded up to four
// digits. A published ε has the digits of its source.
func TestPresets_CostIsThatOfTheAccountant(t *testing.T) {
	for _, p := range models.Presets() {
		h, flags := presetHistory(t, p)
		if flags.Delta != 1e-5 || p.Reached.Accountant != flags.Accountant {
			t.Errorf("%s: δ %v, accountant %s, and the result by %s", p.Name, flags.Delta, flags.Accountant, p.Reached.Accountant)
		}
		check := func(name string, stated, limit float64) {
			want := costOf(t, h, name)
			if limit > 0 { // ε is the limit: less than one lot is left
				if stated != limit || want > limit || want < 0.995*limit {
					t.Errorf("%s: ε = %v by %s, want the limit %v, of which %v is spent", p.Name, stated, name, limit, want)
				}
				return
			}
			if got := number.Round(want, 1, 4); got != strconv.FormatFloat(stated, 'g', 4, 64) {
				t.Errorf("%s: ε = %v by %s, want %s", p.Name, stated, name, got)
			}
		}
		check(p.Reached.Accountant, p.Reached.Epsilon, flags.StopAtEpsilon)
		check("pld", p.ByPLD, 0)
		tolerance := 0.004 * p.Published.Epsilon // 7.10 is of orders that are not integers
		if p.Published.Remark == "rounded" {
			tolerance = 0.05
		}
		if got := costOf(t, h, p.Published.Accountant); math.Abs(got-p.Published.Epsilon) > tolerance {
			t.Errorf("%s: published ε = %v, and %v by the %s accountant", p.Name, p.Published.Epsilon, got, p.Published.Accountant)
		}
	}
}
