package server

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/engine/drawdiscard"
)

// mustOpen opens a model of a folder.
func mustOpen(t *testing.T, d Description, folder string) *Model {
	t.Helper()
	m, err := openModel(d, modelOptions{folder, time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// updated opens a model, puts some updates in, and closes it. It returns the state.
func updated(t *testing.T, d Description, folder string) *state {
	t.Helper()
	m := mustOpen(t, d, folder)
	for i := range 7 {
		w := slices.Repeat([]float32{float32(i)}, m.instances.Weights())
		if _, err := m.replace(w, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	s := m.state()
	if err := m.close(); err != nil {
		t.Fatal(err)
	}
	return s
}

func requireState(t *testing.T, m *Model, want *state) {
	t.Helper()
	if m.updates.Load() != want.updates {
		t.Errorf("%d updates, want %d", m.updates.Load(), want.updates)
	}
	for i, instance := range want.instances {
		if !slices.Equal(m.instances.At(i).Weights, instance.Weights) {
			t.Errorf("instance %d changed", i)
		}
	}
}

// A server continues a model with another learning rate, another schedule and another filter, and then
// again with the first ones. Other settings are refused.
func TestModel_ContinuesWithOtherRate(t *testing.T) {
	folder := t.TempDir()
	d := described("ads", 10)
	want := updated(t, d, folder)
	faster := d
	faster.Settings.LearningRate, faster.Schedule, faster.FalseAlarms = 0.5, "step:0.1@5", 0
	for _, next := range []Description{faster, d, faster} {
		m := mustOpen(t, next, folder)
		requireState(t, m, want)
		if rate := next.Settings.LearningRate; next.Schedule == "" && m.rates.At(7) != rate || next.Schedule != "" && m.rates.At(7) != 0.1*rate {
			t.Errorf("rate %v", m.rates.At(7))
		}
		if err := m.close(); err != nil {
			t.Fatal(err)
		}
		if reports, err := Check(folder); err != nil || !reports[0].OK {
			t.Errorf("check: %+v, %v", reports[0], err)
		}
	}
	faster.Settings.Clip = 2
	if _, err := openModel(faster, modelOptions{folder, time.Minute}); err == nil || !strings.Contains(err.Error(), "other settings") {
		t.Errorf("another clip bound: %v", err)
	}
	d.Schedule = "cosine"
	if _, err := openModel(d, modelOptions{folder, time.Minute}); err == nil || !strings.Contains(err.Error(), "no end") {
		t.Errorf("a schedule with an end: %v", err)
	}
}

// A crash at any step of a change leaves a folder that the old and the new settings can continue, with
// the same instances.
func TestModel_CrashDuringChange(t *testing.T) {
	d := described("ads", 10)
	changed := d
	changed.Settings.LearningRate = 0.5
	text, err := encodeDescription(changed)
	if err != nil {
		t.Fatal(err)
	}
	for step, crash := range map[string]func(folder string, m *Model){
		"announced": func(folder string, m *Model) {
			if err := announceChange(folder, text); err != nil {
				t.Fatal(err)
			}
		},
		"journal": func(folder string, m *Model) {
			j := m.newJournal(folder, text)
			if err := announceChange(folder, text); err != nil {
				t.Fatal(err)
			}
			numbers, err := j.files()
			if err != nil {
				t.Fatal(err)
			}
			if err := j.create(numbers[len(numbers)-1] + 1); err != nil {
				t.Fatal(err)
			}
			j.close()
		},
		"snapshot": func(folder string, m *Model) {
			before, err := readDescription(folder)
			if err != nil {
				t.Fatal(err)
			}
			from, j := m.newJournal(folder, before), m.newJournal(folder, text)
			s, err := from.recover()
			if err != nil {
				t.Fatal(err)
			}
			if err := announceChange(folder, text); err != nil {
				t.Fatal(err)
			}
			j.number = from.number
			if err := j.start(s); err != nil {
				t.Fatal(err)
			}
			j.close()
		},
	} {
		for name, next := range map[string]Description{"old": d, "new": changed} {
			folder := t.TempDir()
			want := updated(t, d, folder)
			shape, err := openModel(d, modelOptions{lifetime: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			crash(filepath.Join(folder, "ads"), shape)
			m, err := openModel(next, modelOptions{folder, time.Minute})
			if err != nil {
				t.Errorf("crash after %s, %s settings: %v", step, name, err)
				continue
			}
			requireState(t, m, want)
			if err := m.close(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(folder, "ads", nextDescriptionName)); err == nil {
				t.Errorf("crash after %s: %s is left", step, nextDescriptionName)
			}
		}
	}
}

// All instances start from given weights. A server that continues the model needs no weights, and
// refuses others.
func TestModel_StartsFromWeights(t *testing.T) {
	folder := t.TempDir()
	d := described("ads", 3)
	d.Instances, d.FalseAlarms = 1, 0 // without a variance among instances
	without := d
	d.Initial = []float32{1, -2, 3}
	want := &state{instances: []*drawdiscard.Instance{{Weights: d.Initial}}}
	for _, next := range []Description{d, without, d} {
		m := mustOpen(t, next, folder)
		requireState(t, m, want)
		if err := m.close(); err != nil {
			t.Fatal(err)
		}
	}
	d.Initial = []float32{1, -2, 4}
	if _, err := openModel(d, modelOptions{folder, time.Minute}); err == nil || !strings.Contains(err.Error(), "other settings") {
		t.Errorf("another start: %v", err)
	}
	d.Initial = []float32{1}
	if _, err := openModel(d, modelOptions{lifetime: time.Minute}); err == nil || !strings.Contains(err.Error(), "1 initial weights for a model of 3") {
		t.Errorf("too few weights: %v", err)
	}
}

// A draw states the rate at its number of updates, and a return of an old draw is tested with that rate.
func TestModel_RateFollowsUpdates(t *testing.T) {
	d := described("ads", 10)
	d.Schedule = "step:0.001@1"
	m, err := openModel(d, modelOptions{lifetime: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for slot := range m.instances.Count() { // without a spread, the filter allows for step and noise alone
		m.instances.Swap(slot, &drawdiscard.Instance{Weights: make([]float32, 10)})
	}
	m.filter.Refresh(m.instances)
	_, ticket, first := m.draw(nil, time.Now())
	if _, err := m.replace(make([]float32, 10), time.Now()); err != nil {
		t.Fatal(err)
	}
	_, later, second := m.draw(nil, time.Now())
	if first != 0.1 || second != 0.0001 || m.status().Rate != second {
		t.Errorf("rates %v, %v, %v", first, second, m.status().Rate)
	}
	mechanism, err := m.mechanism.AtRate(first)
	if err != nil {
		t.Fatal(err)
	}
	weights := make([]float32, 10)
	for i := range weights { // a step of the first rate is far for the second one
		weights[i] = float32(mechanism.NoiseScale() * first)
	}
	parsed, err := m.tickets.parse(ticket, time.Now(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := m.accept(parsed, weights, time.Now()); p != nil {
		t.Errorf("a return at the first rate: %v", err)
	}
	if parsed, err = m.tickets.parse(later, time.Now(), m.updates.Load()); err != nil {
		t.Fatal(err)
	}
	if p, _ := m.accept(parsed, weights, time.Now()); p == nil || p.name != problemOutlier.name {
		t.Errorf("the same return at the second rate: %v", p)
	}
}
