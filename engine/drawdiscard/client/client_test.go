package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/engine/drawdiscard/server"
)

var laplace = drawdiscard.Settings{Distribution: drawdiscard.Laplace, Level: drawdiscard.ModelLevel, Epsilon: 1}

// startServer serves a logistic model of three features in memory.
func startServer(t testing.TB, spec drawdiscard.Spec) string {
	t.Helper()
	s, err := server.New(server.Options{}, []server.Description{{
		Name: "ads", Spec: spec, Instances: 5,
		Settings: drawdiscard.Settings{Distribution: drawdiscard.Laplace, Level: drawdiscard.ModelLevel, Epsilon: 1, Clip: 1, LearningRate: 0.1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := server.Listen("127.0.0.1:0", false, false)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l, "", "") }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(s.Shutdown(ctx), <-done); err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

var threeInputs = drawdiscard.Spec{Model: "logistic", Inputs: drawdiscard.Shape{3}, Classes: 2}

func newClient(t testing.TB, url string) *Client {
	t.Helper()
	c, err := New(url, Options{Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newAccount(t testing.TB, path string, b Budget) *Account {
	t.Helper()
	a, err := OpenAccount(path, drawdiscard.ModelLevel, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func newContributor(t testing.TB, c *Client, s drawdiscard.Settings, a *Account) *Contributor {
	t.Helper()
	model, err := c.FindModel(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	records := drawdiscard.Records{Features: make([]float32, 2*model.Inputs.Size()), Labels: []float32{0, 1}}
	x, err := NewContributor(c, model, s, records, a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// A client takes its step with the rate of its draw: after the first update the rate of this server is
// so small that a step changes no bit of the weights.
func TestContributor_FollowsRateOfDraw(t *testing.T) {
	s, err := server.New(server.Options{}, []server.Description{{
		Name: "ads", Spec: threeInputs, Instances: 1, Schedule: "step:1e-20@1",
		Settings: drawdiscard.Settings{Distribution: drawdiscard.Laplace, Level: drawdiscard.ModelLevel, Epsilon: 1, Clip: 1, LearningRate: 0.1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	web := httptest.NewServer(s)
	defer web.Close()
	c := newClient(t, web.URL)
	x := newContributor(t, c, laplace, newAccount(t, filepath.Join(t.TempDir(), "ledger.jsonl"), Budget{Epsilon: 3}))
	var drawn [3]Drawn
	for i := range drawn {
		if drawn[i], err = c.Draw(context.Background(), "ads", x.codec); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Contribute(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if drawn[0].Rate != 0.1 || drawn[1].Rate > 1e-20 || slices.Equal(drawn[0].Weights, drawn[1].Weights) || !slices.Equal(drawn[1].Weights, drawn[2].Weights) {
		t.Errorf("draws before each contribution: %v", drawn)
	}
}

// Contributions to generalised linear models and to networks arrive, until the budget is gone; the
// refused one does not reach the server.
func TestContributor_StopsAtBudget(t *testing.T) {
	for _, spec := range []drawdiscard.Spec{threeInputs, {Model: "mlp:2", Inputs: drawdiscard.Shape{3}, Classes: 2}} {
		c := newClient(t, startServer(t, spec))
		path := filepath.Join(t.TempDir(), "ledger.jsonl")
		x := newContributor(t, c, laplace, newAccount(t, path, Budget{Epsilon: 3}))
		for n := range 3 {
			cost, err := x.Contribute(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if want := float64(n + 1); math.Abs(cost.Epsilon-want) > 1e-3 || cost.Epsilon > want {
				t.Errorf("contribution %d: ε = %v", n+1, cost.Epsilon)
			}
		}
		if _, err := x.Contribute(context.Background()); !errors.Is(err, engine.ErrBudget) {
			t.Errorf("the fourth contribution: %v", err)
		}
		models, err := c.Models(context.Background())
		if err != nil || models[0].Updates != 3 {
			t.Errorf("%d updates, error %v", models[0].Updates, err)
		}
		average, err := c.Average(context.Background(), "ads", x.codec)
		if err != nil || len(average) != models[0].Weights {
			t.Errorf("average %v, error %v", average, err)
		}
	}
}

// The ledger outlives the process: an account that is opened again continues, for every way to end the
// one before, and a copy of a contribution cannot be made.
func TestAccount_ContinuesLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	m, err := drawdiscard.NewMechanism(drawdiscard.Settings{Distribution: drawdiscard.Laplace, Level: drawdiscard.ModelLevel, Epsilon: 1, Clip: 1, LearningRate: 1}, 4)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		a, err := OpenAccount(path, drawdiscard.ModelLevel, Budget{Epsilon: 2.5})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := OpenAccount(path, drawdiscard.ModelLevel, Budget{Epsilon: 2.5}); !errors.Is(err, ledger.ErrLocked) {
			t.Errorf("a second account at once: %v", err)
		}
		_, err = a.Spend(m.Query("ads", drawdiscard.ModelLevel))
		if n < 2 && err != nil || n == 2 && !errors.Is(err, engine.ErrBudget) {
			t.Errorf("contribution %d: %v", n+1, err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenAccount(path, drawdiscard.FeatureLevel, Budget{Epsilon: 9}); err == nil || !strings.Contains(err.Error(), "level") {
		t.Errorf("the other level: %v", err)
	}
}

// The cost is the smaller of the pure sum and of the accountant's ε, which grows with the root of
// the number of contributions. Gaussian noise has no pure ε.
func TestAccount_ComposesByAccountant(t *testing.T) {
	mechanism := func(d drawdiscard.Distribution, epsilon, delta float64) *drawdiscard.Mechanism {
		m, err := drawdiscard.NewMechanism(drawdiscard.Settings{Distribution: d, Level: drawdiscard.ModelLevel, Epsilon: epsilon, Delta: delta, Clip: 1, LearningRate: 1}, 4)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	a := newAccount(t, filepath.Join(t.TempDir(), "a.jsonl"), Budget{Epsilon: 100, Delta: 1e-6, Accountant: accountant.Default})
	m := mechanism(drawdiscard.Laplace, 0.1, 0)
	var cost Cost
	for range 60 {
		var err error
		if cost, err = a.Spend(m.Query("ads", drawdiscard.ModelLevel)); err != nil {
			t.Fatal(err)
		}
	}
	if math.Abs(cost.Pure-6) > 1e-3 || !(cost.Epsilon < 4.5) || !(cost.Epsilon > 2) {
		t.Errorf("60 contributions of ε = 0.1: %+v", cost)
	}
	if cost, err := a.Spend(mechanism(drawdiscard.Gaussian, 1, 1e-7).Query("ads", drawdiscard.ModelLevel)); err != nil || !math.IsInf(cost.Pure, 1) || math.IsInf(cost.Epsilon, 1) {
		t.Errorf("with a gaussian one: %+v, %v", cost, err)
	}

	pure := newAccount(t, filepath.Join(t.TempDir(), "b.jsonl"), Budget{Epsilon: 100})
	if _, err := pure.Spend(mechanism(drawdiscard.Gaussian, 1, 1e-7).Query("ads", drawdiscard.ModelLevel)); !errors.Is(err, engine.ErrBudget) {
		t.Errorf("gaussian noise in a pure budget: %v", err)
	}
	exact := newAccount(t, filepath.Join(t.TempDir(), "c.jsonl"), Budget{Epsilon: 1, Delta: 1e-7, Accountant: accountant.Default})
	if _, err := exact.Spend(mechanism(drawdiscard.Gaussian, 1, 1e-7).Query("ads", drawdiscard.ModelLevel)); err != nil {
		t.Errorf("a budget of exactly one contribution: %v", err)
	}
}

// A ledger of one level counts contributions of both: at the level of the model all weights together, and at
// that of features one weight. Laplace: m·ε and ε/m; Gaussian: as much as noise for √m and 1/√m of the norm.
func TestAccount_CountsBothLevels(t *testing.T) {
	const weights = 9
	mechanism := func(d drawdiscard.Distribution, level drawdiscard.Level, delta float64) *drawdiscard.Mechanism {
		m, err := drawdiscard.NewMechanism(drawdiscard.Settings{Distribution: d, Level: level, Epsilon: 1, Delta: delta, Clip: 1, LearningRate: 1}, weights)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	const delta = 1e-6
	shift := func(epsilon float64) float64 { // of Gaussian noise that is (ε, δ)-DP
		low, high := 0.0, 10.0
		for range 60 {
			if middle := (low + high) / 2; accountant.GaussianEpsilon(middle, delta) < epsilon {
				low = middle
			} else {
				high = middle
			}
		}
		return low
	}
	for _, c := range []struct {
		noise        drawdiscard.Distribution
		level, count drawdiscard.Level
		want         float64
	}{
		{drawdiscard.Laplace, drawdiscard.FeatureLevel, drawdiscard.ModelLevel, weights},
		{drawdiscard.Laplace, drawdiscard.FeatureLevel, drawdiscard.FeatureLevel, 1},
		{drawdiscard.Laplace, drawdiscard.ModelLevel, drawdiscard.FeatureLevel, 1.0 / weights},
		{drawdiscard.Laplace, drawdiscard.ModelLevel, drawdiscard.ModelLevel, 1},
		{drawdiscard.Gaussian, drawdiscard.FeatureLevel, drawdiscard.ModelLevel, accountant.GaussianEpsilon(3*shift(1), delta)},
		{drawdiscard.Gaussian, drawdiscard.ModelLevel, drawdiscard.FeatureLevel, accountant.GaussianEpsilon(shift(1)/3, delta)},
	} {
		b, of := Budget{Epsilon: 1000}, 0.0
		if c.noise == drawdiscard.Gaussian {
			b.Delta, b.Accountant, of = delta, accountant.Default, delta
		}
		a, err := OpenAccount(filepath.Join(t.TempDir(), "ledger.jsonl"), c.count, b)
		if err != nil {
			t.Fatal(err)
		}
		m := mechanism(c.noise, c.level, of)
		cost, err := a.Spend(m.Query("ads", c.count))
		if err != nil || math.Abs(cost.Epsilon/c.want-1) > 1e-3 {
			t.Errorf("%s noise of level %s, counted by %s: ε = %v, want %v (%v)", c.noise, c.level, c.count, cost.Epsilon, c.want, err)
		}
		if c.count == drawdiscard.ModelLevel {
			if whole, err := WholeModels(m, 1, b); err != nil || whole.Epsilon != cost.Epsilon {
				t.Errorf("whole models cost %v, the ledger states %v (%v)", whole.Epsilon, cost.Epsilon, err)
			}
		}
		a.Close()
	}
	// Both kinds in one ledger add up.
	a := newAccount(t, filepath.Join(t.TempDir(), "both.jsonl"), Budget{Epsilon: 10.5})
	for i, m := range []*drawdiscard.Mechanism{mechanism(drawdiscard.Laplace, drawdiscard.FeatureLevel, 0), mechanism(drawdiscard.Laplace, drawdiscard.ModelLevel, 0)} {
		if cost, err := a.Spend(m.Query("ads", drawdiscard.ModelLevel)); err != nil || math.Abs(cost.Pure-float64(weights+i)) > 1e-3 {
			t.Errorf("after %d contributions: %+v, %v", i+1, cost, err)
		}
	}
	if _, err := a.Spend(mechanism(drawdiscard.Laplace, drawdiscard.FeatureLevel, 0).Query("ads", drawdiscard.ModelLevel)); !errors.Is(err, engine.ErrBudget) {
		t.Errorf("a contribution beyond the total: %v", err)
	}
}

func TestOpenAccount_RejectsInvalid(t *testing.T) {
	for _, b := range []Budget{{}, {Epsilon: -1}, {Epsilon: math.NaN()}, {Epsilon: math.Inf(1)}, {Epsilon: 1, Delta: 1}, {Epsilon: 1, Delta: -1}} {
		if a, err := OpenAccount(filepath.Join(t.TempDir(), "l"), drawdiscard.ModelLevel, b); err == nil {
			a.Close()
			t.Errorf("%+v: no error", b)
		}
	}
	if _, err := OpenAccount(filepath.Join(t.TempDir(), "l"), "row", Budget{Epsilon: 1}); err == nil {
		t.Error("unknown level: no error")
	}
	path := filepath.Join(t.TempDir(), "l")
	if err := os.WriteFile(path, []byte("not a ledger\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAccount(path, drawdiscard.ModelLevel, Budget{Epsilon: 1}); err == nil {
		t.Error("damaged ledger: no error")
	}
}

// proxied returns a proxy to a server that shows each request to see before it forwards it.
func proxied(t testing.TB, to string, see func(w http.ResponseWriter, r *http.Request) (forward bool)) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if see(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(p.Close)
	return p.URL
}

// When a return arrives at the server, its cost is on the client's disk. A return that then fails
// stays spent.
func TestContributor_SpendsBeforeTheReturnLeaves(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	fail := false
	returns := 0
	to := startServer(t, threeInputs)
	url := proxied(t, to, func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/return") {
			returns++
			h, err := ledger.Read(path)
			if err != nil || h.LotCount() != returns {
				t.Errorf("at return %d the ledger states %d contributions, %v", returns, h.LotCount(), err)
			}
			if fail {
				http.Error(w, "no", http.StatusTeapot)
				return false
			}
		}
		return true
	})
	a := newAccount(t, path, Budget{Epsilon: 2})
	x := newContributor(t, newClient(t, url), laplace, a)
	if _, err := x.Contribute(context.Background()); err != nil {
		t.Fatal(err)
	}
	fail = true
	var p *Problem
	if _, err := x.Contribute(context.Background()); !errors.As(err, &p) || p.Status != http.StatusTeapot {
		t.Errorf("the failed return: %v", err)
	}
	if c, err := a.Cost(); err != nil || math.Abs(c.Epsilon-2) > 1e-3 {
		t.Errorf("after the failed return: %+v, %v", c, err)
	}
	if _, err := x.Contribute(context.Background()); !errors.Is(err, engine.ErrBudget) {
		t.Errorf("after the budget is gone: %v", err)
	}
}

// If the answer to a return is lost, the same bytes are sent again with the same ticket, and the
// contribution counts once on both sides.
func TestClient_RepeatsALostReturn(t *testing.T) {
	to := startServer(t, threeInputs)
	var bodies []string
	url := proxied(t, to, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/return") {
			return true
		}
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, r.Header.Get(ticketHeader)+string(body))
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if len(bodies) > 1 {
			return true
		}
		request, _ := http.NewRequest("POST", to+r.URL.Path, strings.NewReader(string(body)))
		request.Header.Set(ticketHeader, r.Header.Get(ticketHeader))
		response, err := http.DefaultClient.Do(request)
		if err != nil || response.StatusCode != 204 {
			t.Error(err, response)
		}
		response.Body.Close()
		panic(http.ErrAbortHandler) // the answer is lost
	})
	c := newClient(t, url)
	a := newAccount(t, filepath.Join(t.TempDir(), "l.jsonl"), Budget{Epsilon: 1})
	if _, err := newContributor(t, c, laplace, a).Contribute(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(bodies) != 2 || bodies[0] != bodies[1] {
		t.Errorf("%d returns were sent", len(bodies))
	}
	if m, err := c.Models(context.Background()); err != nil || m[0].Updates != 1 {
		t.Errorf("%+v %v", m, err)
	}
}

// If the answer to a return that the server refused is lost, the client does not count the return as
// one that arrived.
func TestClient_LearnsOfALostRefusal(t *testing.T) {
	to := startServer(t, threeInputs)
	returns := 0
	url := proxied(t, to, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/return") {
			return true
		}
		if returns++; returns > 1 {
			return true
		}
		request, _ := http.NewRequest("POST", to+r.URL.Path, strings.NewReader("not a model"))
		request.Header.Set(ticketHeader, r.Header.Get(ticketHeader))
		response, err := http.DefaultClient.Do(request)
		if err != nil || response.StatusCode != 400 {
			t.Error(err, response)
		}
		response.Body.Close()
		panic(http.ErrAbortHandler) // the answer is lost
	})
	c := newClient(t, url)
	a := newAccount(t, filepath.Join(t.TempDir(), "l.jsonl"), Budget{Epsilon: 1})
	var p *Problem
	if _, err := newContributor(t, c, laplace, a).Contribute(context.Background()); !errors.As(err, &p) || p.Type != ticketRefused {
		t.Errorf("a refused return whose answer was lost: %v", err)
	}
	if returns != 2 {
		t.Errorf("%d returns were sent", returns)
	}
}

// A server cannot make the client reveal more, take more memory, or talk to another place.
func TestClient_DistrustsServer(t *testing.T) {
	for _, server := range []string{"", "127.0.0.1:80", "ftp://127.0.0.1", "http://192.0.2.1", "http://example.org", "http://127.0.0.1.example.org", "https://user:pass@host", "https://host?x=1"} {
		if _, err := New(server, Options{Token: "secret token 0123"}); err == nil {
			t.Errorf("%q: no error", server)
		}
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	answers := map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"huge":      func(w http.ResponseWriter, _ *http.Request) { io.CopyN(w, zeros{}, 64<<20) },
		"version":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"version":2,"models":[]}`) },
		"no JSON":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
		"no models": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"version":1,"models":[]}`) },
		"problem": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(418)
			fmt.Fprintf(w, `{"title":"\u001b[2Jevil","detail":"%s"}`, strings.Repeat("x", 5000))
		},
	}
	for name, answer := range answers {
		s := httptest.NewServer(answer)
		_, err := newClient(t, s.URL).FindModel(context.Background(), "")
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if text := err.Error(); len(text) > 500 || strings.Contains(text, "\x1b") {
			t.Errorf("%s: error %q", name, text)
		}
		s.Close()
	}
	a := newAccount(t, filepath.Join(t.TempDir(), "l.jsonl"), Budget{Epsilon: 1})
	records := drawdiscard.Records{Features: make([]float32, 3), Labels: []float32{1}}
	good := Model{Name: "x", Spec: threeInputs, Weights: 4, Settings: drawdiscard.Settings{Clip: 1, LearningRate: 1}}
	for name, change := range map[string]func(m *Model, s *drawdiscard.Settings){
		"huge model":       func(m *Model, _ *drawdiscard.Settings) { m.Inputs = drawdiscard.Shape{1 << 30, 1 << 30} },
		"huge weights":     func(m *Model, _ *drawdiscard.Settings) { m.Weights = 1 << 40 },
		"other weights":    func(m *Model, _ *drawdiscard.Settings) { m.Weights = 5 },
		"no clip":          func(m *Model, _ *drawdiscard.Settings) { m.Settings.Clip = 0 },
		"infinite rate":    func(m *Model, _ *drawdiscard.Settings) { m.Settings.LearningRate = math.Inf(1) },
		"without noise":    func(_ *Model, s *drawdiscard.Settings) { s.Distribution = drawdiscard.NoNoise },
		"unknown model":    func(m *Model, _ *drawdiscard.Settings) { m.Model = "../../x" },
		"server's epsilon": func(m *Model, s *drawdiscard.Settings) { m.Settings.Epsilon, s.Epsilon = 50, 0 },
	} {
		m, s := good, laplace
		change(&m, &s)
		if x, err := NewContributor(nil, m, s, records, a); err == nil {
			x.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

// A server that states a large model and sends little makes the client allocate little, and spends
// nothing of its budget.
func TestContributor_AllocatesWhatArrives(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(ticketHeader, "x")
		w.Write(make([]byte, 1000))
	}))
	defer s.Close()
	a := newAccount(t, filepath.Join(t.TempDir(), "l.jsonl"), Budget{Epsilon: 1})
	records := drawdiscard.Records{Features: make([]float32, 3), Labels: []float32{1}}
	for _, c := range []struct{ hidden, weights int }{{30_000, 3}, {30_000, 30_000}, {16_000, 3*16_000 + 16_000 + 16_000*16_000 + 16_000 + 2*16_000 + 2}} {
		m := Model{Name: "x", Weights: c.weights, Settings: drawdiscard.Settings{Clip: 1, LearningRate: 1}}
		m.Spec = drawdiscard.Spec{Model: fmt.Sprintf("mlp:%d,%[1]d", c.hidden), Inputs: drawdiscard.Shape{3}, Classes: 2}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		x, err := NewContributor(newClient(t, s.URL), m, laplace, records, a)
		if (err == nil) != (c.hidden == 16_000) {
			t.Errorf("%d weights stated: %v", c.weights, err)
		}
		if err == nil {
			if _, err = x.Contribute(context.Background()); err == nil {
				t.Error("a draw of 1,000 bytes was accepted")
			}
			x.Close()
		}
		runtime.ReadMemStats(&after)
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 20<<20 {
			t.Errorf("%d weights stated: %d bytes were allocated", c.weights, bytes)
		}
	}
	if cost, err := a.Cost(); err != nil || cost.Epsilon != 0 {
		t.Errorf("%+v %v", cost, err)
	}
}

// The account of a name is one file, wherever the data are. Names do not leave the folder.
func TestAccountPath_FollowsName(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	one, err := AccountPath("alice")
	if err != nil {
		t.Fatal(err)
	}
	a := newAccount(t, one, Budget{Epsilon: 1}) // the folder is made
	if _, err := a.Cost(); err != nil {
		t.Error(err)
	}
	if again, err := AccountPath("alice"); err != nil || again != one {
		t.Errorf("%s %v", again, err)
	}
	if other, err := AccountPath("bob"); err != nil || other == one || filepath.Dir(other) != filepath.Dir(one) {
		t.Errorf("%s %v", other, err)
	}
	for _, name := range []string{"", ".", "..", "../x", "a/b", `a\b`, "-a", ".a", "a b", "é", strings.Repeat("a", 65)} {
		if path, err := AccountPath(name); err == nil {
			t.Errorf("%q: %s", name, path)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// The client refuses TLS below 1.3 and certificates that it does not trust.
func TestClient_RefusesTLSDowngrade(t *testing.T) {
	for _, c := range []struct {
		most    uint16
		trusted bool
	}{{tls.VersionTLS12, true}, {tls.VersionTLS13, false}, {tls.VersionTLS13, true}} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"version":1,"models":[{"name":"a"}]}`) }))
		s.Config.ErrorLog = nil
		s.TLS = &tls.Config{MaxVersion: c.most}
		s.StartTLS()
		o := Options{Timeout: 5 * time.Second}
		if c.trusted {
			o.Roots = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		}
		remote, err := New(s.URL, o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = remote.FindModel(context.Background(), "a")
		if good := c.most == tls.VersionTLS13 && c.trusted; good != (err == nil) {
			t.Errorf("%+v: %v", c, err)
		}
		remote.Close()
		s.Close()
	}
}

// Clients with separable data train a model over HTTP. The noise of the 60 steps together has a
// standard deviation below 0.1, and the weights that separate the classes are above 1.
func TestContributor_TrainsOverHTTP(t *testing.T) {
	s, err := server.New(server.Options{}, []server.Description{{
		Name: "m", Spec: drawdiscard.Spec{Model: "logistic", Inputs: drawdiscard.Shape{2}, Classes: 2}, Instances: 2,
		Settings: drawdiscard.Settings{Distribution: drawdiscard.Laplace, Level: drawdiscard.ModelLevel, Epsilon: 600, Clip: 1, LearningRate: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l, "", "")
	defer s.Shutdown(context.Background())
	c := newClient(t, "http://"+l.Addr().String())
	model, err := c.FindModel(context.Background(), "m")
	if err != nil {
		t.Fatal(err)
	}
	settings := laplace
	settings.Epsilon = 600
	a := newAccount(t, filepath.Join(t.TempDir(), "l.jsonl"), Budget{Epsilon: 1e6})
	records := drawdiscard.Records{Features: []float32{1, 0, 0.9, 0.2, 0, 1, 0.1, 0.8}, Labels: []float32{1, 1, 0, 0}}
	x, err := NewContributor(c, model, settings, records, a)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for range 60 {
		if _, err := x.Contribute(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	average, err := c.Average(context.Background(), "m", x.codec)
	if err != nil {
		t.Fatal(err)
	}
	glm, _ := drawdiscard.NewGLM(drawdiscard.Logistic, 2, 2)
	p := make([]float32, 4)
	glm.Predict(p, average, records.Features)
	for i, y := range records.Labels {
		if (p[i] > 0.5) != (y == 1) {
			t.Errorf("record %d: p = %v, label %v (weights %v)", i, p[i], y, average)
		}
	}
}
