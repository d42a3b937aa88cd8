package server

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/internal/host/atomicfile"
	"github.com/dptrain/dptrain/internal/host/lock"
	"github.com/dptrain/dptrain/noise"
)

// Description is what is public about a hosted model.
type Description struct {
	Name             string `json:"name" yaml:"name"`
	drawdiscard.Spec `yaml:",inline"`
	Instances        int                  `json:"instances" yaml:"instances"` // k
	Settings         drawdiscard.Settings `json:"settings" yaml:"settings"`   // of the clients' steps
	// Schedule changes the learning rate with the number of updates; see drawdiscard.ParseRates. Empty:
	// it is constant.
	Schedule string `json:"schedule,omitempty" yaml:"schedule"`
	// Initial are public weights that all instances start from; nil: those of the model. Start is their
	// SHA-256, which a server that continues the model takes from its folder.
	Initial []float32 `json:"-" yaml:"-"`
	Start   string    `json:"start,omitempty" yaml:"-"`
	// Test are public records, as drawdiscard.LoadRecords reads them, on which the server measures the
	// averaged model; none: it measures nothing.
	Test drawdiscard.Records `json:"-" yaml:"-"`
	// FalseAlarms is the largest share of honest returns that the spam filter rejects; 0: no
	// filter.
	FalseAlarms float64 `json:"false_alarms" yaml:"false_alarms"`
}

// DefaultInstances is the number of instances of the paper's deployment.
const DefaultInstances = 20

// validName is the form of a model's name. It can be a folder and a label of a metric.
var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// Model is a hosted model.
type Model struct {
	description Description
	mechanism   *drawdiscard.Mechanism // of the first update
	rates       drawdiscard.Rates
	codec       *drawdiscard.Codec
	tensors     []drawdiscard.TensorShape
	instances   *drawdiscard.Instances
	filter      *drawdiscard.SpamFilter // nil: every return passes
	tickets     *tickets
	folderLock  *os.File // nil without a folder
	note        string   // about what a crash left; may be empty

	draws   atomic.Uint64
	updates atomic.Uint64
	rejects map[string]*atomic.Uint64 // by problem

	mu      sync.Mutex // the order of journal and slots
	journal *journal   // nil: the model is in memory only

	refreshing sync.Mutex
	refreshed  atomic.Uint64 // the number of updates at the filter's last refresh
	summaries  cached[summary]
	averages   cached[average]
	predictor  *predictor
	test       publicTest
	history    history

	snapshots sync.WaitGroup
	snapshot  atomic.Bool // one is being written
}

// modelOptions are what a server gives to its models.
type modelOptions struct {
	folder   string // "": in memory only
	lifetime time.Duration
}

// openModel makes a model, or continues the one in the folder.
func openModel(d Description, o modelOptions) (m *Model, err error) {
	if !validName.MatchString(d.Name) {
		return nil, fmt.Errorf("model name %q: use up to 64 of a-z, 0-9, - and _, starting with a letter or a digit", d.Name)
	}
	built, err := d.Build(1)
	if err != nil {
		return nil, err
	}
	initial, tensors := built.Initial(), built.Tensors()
	if n, ok := built.(*drawdiscard.Network); ok {
		n.Close()
	}
	if d.Initial != nil {
		if len(d.Initial) != len(initial) {
			return nil, fmt.Errorf("model %s: %d initial weights for a model of %d", d.Name, len(d.Initial), len(initial))
		}
		initial, d.Start = d.Initial, hashWeights(d.Initial)
	}
	rates, err := drawdiscard.ParseRates(d.Schedule, d.Settings.LearningRate)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", d.Name, err)
	}
	m = &Model{description: d, rates: rates, predictor: newPredictor(d.Spec), test: publicTest{records: d.Test},
		history: history{interval: historyInterval}, tensors: tensors,
		tickets: newTickets(d.Name, o.lifetime, drawdiscard.MaxAge(d.Instances)), rejects: newRejects()}
	if m.mechanism, err = drawdiscard.NewMechanism(d.Settings, len(initial)); err == nil {
		m.mechanism, err = m.mechanism.AtRate(rates.At(0))
	}
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", d.Name, err)
	}
	if m.codec, err = drawdiscard.NewCodec(tensors); err != nil {
		return nil, err
	}
	// A server can be restarted with the start of its models known: the noise of the start is
	// public.
	if m.instances, err = drawdiscard.NewInstances(initial, d.Instances, m.mechanism.NoiseVariance(), noise.NewSeeded(1)); err != nil {
		return nil, fmt.Errorf("model %s: %w", d.Name, err)
	}
	m.test.quality.Store(math.Float64bits(math.NaN()))
	if width := d.Inputs.Size(); len(d.Test.Features) != width*len(d.Test.Labels) {
		return nil, fmt.Errorf("model %s: %d features of %d test records; the model reads %d of each", d.Name, len(d.Test.Features), len(d.Test.Labels), width)
	}
	for i := range m.instances.Count() {
		m.instances.At(i).Born = time.Now()
	}
	if o.folder != "" {
		if err := m.openFolder(filepath.Join(o.folder, d.Name)); err != nil {
			return nil, err
		}
	}
	if d.FalseAlarms != 0 {
		if m.filter, err = drawdiscard.NewSpamFilter(m.mechanism, m.instances, d.FalseAlarms); err != nil {
			m.close()
			return nil, fmt.Errorf("model %s: %w", d.Name, err)
		}
		m.refreshed.Store(m.updates.Load())
	}
	return m, nil
}

// openFolder reads the instances from a folder, or writes the start to it, and locks it.
func (m *Model) openFolder(folder string) (err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if m.folderLock, err = os.OpenFile(filepath.Join(folder, lockName), os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			m.folderLock.Close()
		}
	}()
	if err := lock.TryLock(m.folderLock); err != nil {
		return fmt.Errorf("%s is in use by another server: %w", folder, err)
	}
	if err := finishChange(folder, m.description.Instances, m.mechanism.Weights()); err != nil {
		return err
	}
	before, err := readDescription(folder)
	if err != nil {
		return err
	}
	text, changed, err := m.describe(folder, before)
	if err != nil {
		return err
	}
	j := m.newJournal(folder, text)
	from := j // the journal of the description in the folder
	if changed {
		from = m.newJournal(folder, before)
	}
	s, err := from.recover()
	switch {
	case err != nil:
		return err
	case s == nil && before != nil:
		return &DamagedError{filepath.Join(folder, snapshotName), "it is missing"}
	case s == nil:
		s = m.state()
	case s.dropped > 0:
		m.note = fmt.Sprintf("model %s: the last %d bytes of its journal were an incomplete update, which is dropped", m.description.Name, s.dropped)
	}
	if len(s.instances) != m.instances.Count() {
		return &DamagedError{filepath.Join(folder, snapshotName), fmt.Sprintf("it has %d instances, not %d", len(s.instances), m.instances.Count())}
	}
	if m.instances, err = drawdiscard.RestoreInstances(s.instances); err != nil {
		return err
	}
	m.updates.Store(s.updates)
	if changed {
		if err := announceChange(folder, text); err != nil {
			return err
		}
		j.number = from.number
	}
	if err := j.start(s); err != nil {
		return err
	}
	m.journal = j
	switch {
	case changed:
		return completeChange(folder)
	case before == nil: // after the snapshot: a description without one shows that the snapshot was lost
		return errors.Join(atomicfile.Write(filepath.Join(folder, descriptionName), text), atomicfile.SyncFolder(folder))
	}
	return nil
}

func (m *Model) newJournal(folder string, description []byte) *journal {
	return newJournal(folder, sha256.Sum256(description), m.description.Instances, m.mechanism.Weights())
}

// draw returns the file of a random instance, its ticket, and the learning rate of the step.
func (m *Model) draw(dst []byte, now time.Time) (file []byte, ticket string, rate float64) {
	updates := m.updates.Load()
	file = m.codec.Append(dst, m.instances.Draw().Weights)
	m.draws.Add(1)
	return file, m.tickets.issue(now, updates), m.rates.At(updates)
}

// accept tests the returned weights of a claimed ticket and puts them into a random slot. The
// problem is nil if they are in.
func (m *Model) accept(t ticket, weights []float32, now time.Time) (*problem, error) {
	if m.tickets.isOld(t, m.updates.Load()) { // updates arrived with the body
		return &problemTicketExpired, errTicketExpired
	}
	if m.filter != nil {
		if v := m.filter.TestAtRate(weights, m.rates.At(t.updates)); v != drawdiscard.Accepted {
			return &problemOutlier, fmt.Errorf("the returned model is too far from the instances (by %s); check the client's settings", v)
		}
	}
	updates, err := m.replace(weights, now)
	if err != nil {
		return &problemStorage, errors.New("the return could not be stored; try again later with the same ticket")
	}
	m.refreshFilter(updates)
	return nil, nil
}

// refreshFilter gives the filter the instances as they are, once in k updates.
func (m *Model) refreshFilter(updates uint64) {
	due := m.refreshed.Load() + uint64(m.instances.Count())
	if m.filter == nil || updates < due || !m.refreshing.TryLock() {
		return
	}
	defer m.refreshing.Unlock()
	m.refreshed.Store(updates)
	m.filter.Refresh(m.instances)
}

// replace writes an instance to the journal and then puts it into a random slot.
func (m *Model) replace(weights []float32, now time.Time) (updates uint64, err error) {
	slot := rand.IntN(m.instances.Count())
	m.mu.Lock()
	defer m.mu.Unlock()
	updates = m.updates.Load() + 1
	i := &drawdiscard.Instance{Weights: weights, Update: updates, Born: now}
	if m.journal != nil {
		if err := m.journal.append(slot, i); err != nil {
			return 0, err
		}
	}
	m.instances.Swap(slot, i)
	m.updates.Store(updates)
	if m.journal != nil && m.journal.size >= m.journal.limit && m.snapshot.CompareAndSwap(false, true) {
		m.rotate()
	}
	return updates, nil
}

// rotate begins the next journal file and writes the snapshot before it in the background. If
// that fails, the files before it stay, and the next rotation tries again.
func (m *Model) rotate() {
	next := m.journal.number + 1
	if err := m.journal.create(next); err != nil {
		m.snapshot.Store(false)
		return
	}
	s, j := m.state(), m.journal
	m.snapshots.Go(func() {
		defer m.snapshot.Store(false)
		_ = j.replaceBefore(s, next)
	})
}

// state returns the instances of this moment. The caller holds mu, or no return can arrive.
func (m *Model) state() *state {
	s := &state{updates: m.updates.Load()}
	for i := range m.instances.Count() {
		s.instances = append(s.instances, m.instances.At(i))
	}
	return s
}

// sync makes the updates so far survive a power failure.
func (m *Model) sync() error {
	if m.journal == nil {
		return nil
	}
	m.mu.Lock()
	file, dirty := m.journal.file, m.journal.dirty
	m.journal.dirty = false
	m.mu.Unlock()
	if !dirty {
		return nil
	}
	if err := file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) { // a rotation syncs and closes the file
		return err
	}
	return nil
}

// close writes a snapshot and releases the folder. No return arrives any more.
func (m *Model) close() error {
	m.snapshots.Wait()
	m.predictor.close()
	if m.journal == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.journal.create(m.journal.number + 1)
	if err == nil { // otherwise the files before it contain everything
		err = m.journal.replaceBefore(m.state(), m.journal.number)
	}
	return errors.Join(err, m.journal.close(), m.folderLock.Close())
}

// status is what is public about a model's progress.
type status struct {
	Description
	Weights int     `json:"weights"`
	Draws   uint64  `json:"draws"`
	Updates uint64  `json:"updates"`
	Spread  float64 `json:"spread"`
	Rate    float64 `json:"rate"` // the learning rate of the next draw
}

func (m *Model) status() status {
	return status{m.description, m.mechanism.Weights(), m.draws.Load(), m.updates.Load(),
		m.summarize().spread, m.rates.At(m.updates.Load())}
}

// stationarySpread is the spread that noise alone keeps at the present learning rate.
func (m *Model) stationarySpread() float64 {
	ratio := m.rates.At(m.updates.Load()) / m.mechanism.Settings().LearningRate
	return drawdiscard.StationaryVariance(m.instances.Count(), m.mechanism.NoiseVariance()*ratio*ratio)
}

// summary describes the instances for metrics.
type summary struct {
	spread     float64 // mean over the weights of the variance among the instances
	young, old time.Time
	meanAge    time.Duration // at the time of the summary
	computed   time.Time
}

// summarize returns a summary that is about a second old at most: it reads all weights.
func (m *Model) summarize() summary {
	return m.summaries.get(time.Second, func() summary {
		s := summary{spread: m.instances.Spread(), computed: time.Now()}
		for i := range m.instances.Count() {
			born := m.instances.At(i).Born
			if i == 0 || born.After(s.young) {
				s.young = born
			}
			if i == 0 || born.Before(s.old) {
				s.old = born
			}
			s.meanAge += max(0, s.computed.Sub(born)) / time.Duration(m.instances.Count())
		}
		return s
	})
}

// ages returns the ages of the youngest and the oldest instance, and the mean age.
func (s summary) ages(now time.Time) (low, mean, high time.Duration) {
	return max(0, now.Sub(s.young)), s.meanAge + now.Sub(s.computed), max(0, now.Sub(s.old))
}

// average is the file of the averaged model after a number of updates.
type average struct {
	file    []byte
	weights []float32
	updates uint64
}

func (m *Model) average() average {
	return m.averages.get(0, func() average {
		a := average{updates: m.updates.Load()}
		mean := &Averaged{m.description.Name, m.description.Spec, make([]float32, m.instances.Weights()), a.updates}
		m.instances.Average(mean.Weights)
		a.weights = mean.Weights
		a.file, _ = mean.appendFile(nil, m.tensors) // the names and shapes of the codec, which exist
		return a
	})
}
