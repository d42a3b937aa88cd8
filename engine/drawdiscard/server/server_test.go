package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dptrain/dptrain/engine/drawdiscard"
)

// described is a logistic model of the given number of weights.
func described(name string, weights int) Description {
	return Description{
		Name: name, Spec: drawdiscard.Spec{Model: "logistic", Inputs: drawdiscard.Shape{weights - 1}, Classes: 2}, Instances: 5,
		Settings:    drawdiscard.Settings{Distribution: drawdiscard.Laplace, Level: drawdiscard.FeatureLevel, Epsilon: 1, Clip: 1, LearningRate: 0.1},
		FalseAlarms: 0.01,
	}
}

// running is a server on the loopback interface.
type running struct {
	*Server
	url    string
	client *http.Client
	stop   func() error
}

func start(t testing.TB, o Options, descriptions ...Description) *running {
	t.Helper()
	return startWith(t, o, func(*Server) {}, descriptions...)
}

// startWith starts a server that prepare changes before its first request.
func startWith(t testing.TB, o Options, prepare func(*Server), descriptions ...Description) *running {
	t.Helper()
	s, err := New(o, descriptions)
	if err != nil {
		t.Fatal(err)
	}
	prepare(s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, "", "") }()
	transport := &http.Transport{MaxIdleConnsPerHost: 512}
	r := &running{Server: s, url: "http://" + l.Addr().String(), client: &http.Client{Transport: transport, Timeout: 30 * time.Second}}
	r.stop = sync.OnceValue(func() error {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			return err
		}
		return <-served
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// do sends a request and returns the response with its body read.
func (r *running) do(t testing.TB, method, path string, header map[string]string, body []byte) (*http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequest(method, r.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		request.Header.Set(k, v)
	}
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, text
}

func (r *running) draw(t testing.TB, name string) (file []byte, ticket string) {
	t.Helper()
	response, file := r.do(t, "POST", "/v1/models/"+name+"/draw", nil, nil)
	if response.StatusCode != 200 {
		t.Fatalf("draw: %s %s", response.Status, file)
	}
	return file, response.Header.Get(TicketHeader)
}

func (r *running) give(t testing.TB, name, ticket string, file []byte) *http.Response {
	t.Helper()
	response, _ := r.do(t, "POST", "/v1/models/"+name+"/return", map[string]string{TicketHeader: ticket}, file)
	return response
}

// wantProblem checks the status, the media type and the type of a problem.
func wantProblem(t testing.TB, response *http.Response, body []byte, want problem) {
	t.Helper()
	var p struct {
		Type, Title, Detail string
		Status              int
	}
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatalf("%s: %q is not JSON", want.name, body)
	}
	if response.StatusCode != want.status || p.Status != want.status || p.Type != typePrefix+want.name || p.Title == "" || p.Detail == "" ||
		response.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %s %s, want %d %s", response.Status, body, want.status, want.name)
	}
}

func TestServer_DrawAndReturn(t *testing.T) {
	r := start(t, Options{}, described("ads", 10), described("typing", 20))
	codec := r.models["ads"].codec
	for n := range 50 {
		file, ticket := r.draw(t, "ads")
		weights, err := codec.Decode(file)
		if err != nil {
			t.Fatal(err)
		}
		weights[n%10] += 0.01
		if response := r.give(t, "ads", ticket, codec.Append(nil, weights)); response.StatusCode != http.StatusNoContent {
			t.Fatalf("return %d: %s", n, response.Status)
		}
		response, body := r.do(t, "POST", "/v1/models/ads/return", map[string]string{TicketHeader: ticket}, file)
		wantProblem(t, response, body, problemTicketUsed)
	}
	_, body := r.do(t, "GET", "/v1/models", nil, nil)
	var list struct {
		Models []struct {
			Name    string
			Model   string
			Inputs  []int
			Weights int
			Updates int
			Draws   int
			Spread  float64
		}
	}
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatal(err)
	}
	if m := list.Models[0]; len(list.Models) != 2 || m.Name != "ads" || m.Weights != 10 || m.Updates != 50 || m.Draws != 50 || m.Model != "logistic" || !(m.Spread > 0) {
		t.Errorf("models: %s", body)
	}
	response, body := r.do(t, "GET", "/v1/models/ads", nil, nil)
	average, err := codec.Decode(body)
	if err != nil || response.Header.Get("Dptrain-Updates") != "50" {
		t.Fatalf("%v %v", err, response.Header)
	}
	want := make([]float32, 10)
	r.models["ads"].instances.Average(want)
	for i := range want {
		if want[i] != average[i] {
			t.Errorf("average %v, want %v", average, want)
			break
		}
	}
	if response, body := r.do(t, "GET", "/healthz", nil, nil); response.StatusCode != 200 || !strings.Contains(string(body), "ok") {
		t.Errorf("health: %s %s", response.Status, body)
	}
	_, body = r.do(t, "GET", "/metrics", nil, nil)
	for _, line := range []string{
		`dptrain_updates_total{model="ads"} 50`, `dptrain_rejects_total{model="ads",reason="ticket-used"} 50`,
		`dptrain_draws_total{model="typing"} 0`, `dptrain_instance_age_seconds{model="ads",stat="max"}`, `dptrain_spread{model="ads"}`,
	} {
		if !strings.Contains(string(body), line) {
			t.Errorf("metrics lack %s:\n%s", line, body)
		}
	}
}

// Every kind of bad request is a problem, is counted, and changes nothing.
func TestServer_RejectsBadRequests(t *testing.T) {
	r := start(t, Options{}, described("ads", 10), described("other", 10))
	m := r.models["ads"]
	before := m.state()
	good := m.codec.Append(nil, make([]float32, 10))
	nan := m.codec.Append(nil, append(make([]float32, 9), float32(math.NaN())))
	inf := m.codec.Append(nil, append(make([]float32, 9), float32(math.Inf(-1))))
	far := m.codec.Append(nil, append(make([]float32, 9), 1e9))
	otherShape, _ := drawdiscard.NewCodec([]drawdiscard.TensorShape{{Name: "fc.weight", Shape: []int{9, 1}}, {Name: "fc.bias", Shape: []int{1}}})
	_, foreign := r.draw(t, "other")
	post := func(path string, want problem, ticket string, body []byte) {
		t.Helper()
		header := map[string]string{}
		if ticket != "" {
			header[TicketHeader] = ticket
		}
		response, text := r.do(t, "POST", path, header, body)
		wantProblem(t, response, text, want)
	}
	fresh := func() string { _, ticket := r.draw(t, "ads"); return ticket }
	const path = "/v1/models/ads/return"
	post(path, problemTicketMissing, "", good)
	post(path, problemTicketInvalid, "x", good)
	post(path, problemTicketInvalid, strings.Repeat("A", len(fresh())), good)
	post(path, problemTicketInvalid, foreign, good)
	post(path, problemMalformed, fresh(), nil)
	post(path, problemMalformed, fresh(), []byte("hello"))
	post(path, problemMalformed, fresh(), good[:len(good)-1])
	post(path, problemTooLarge, fresh(), make([]byte, m.codec.MaxSize()+1))
	post(path, problemShape, fresh(), otherShape.Append(nil, make([]float32, 10)))
	post(path, problemNotFinite, fresh(), nan)
	post(path, problemNotFinite, fresh(), inf)
	post(path, problemOutlier, fresh(), far)
	post("/v1/models/absent/draw", problemNotFound, "", nil)
	post("/v2/models/ads/draw", problemNotFound, "", nil)
	post("/v1/models/ads/steal", problemNotFound, "", nil)
	post("/v1/models/ads/draw/x", problemNotFound, "", nil)
	post("/v1/models", problemMethod, "", nil)
	for _, action := range []string{"draw", "return"} {
		response, body := r.do(t, "GET", "/v1/models/ads/"+action, nil, nil)
		wantProblem(t, response, body, problemMethod)
		if response.Header.Get("Allow") != "POST" {
			t.Errorf("Allow: %q", response.Header.Get("Allow"))
		}
	}
	after := m.state()
	for i := range before.instances {
		if before.instances[i] != after.instances[i] {
			t.Errorf("instance %d changed", i)
		}
	}
	_, text := r.do(t, "GET", "/metrics", nil, nil)
	for _, line := range []string{`{model="ads",reason="malformed"} 3`, `{model="ads",reason="ticket-invalid"} 3`, `{model="ads",reason="not-finite"} 2`, `{model="ads",reason="outlier"} 1`, `{model="ads",reason="too-large"} 1`, `{model="",reason="not-found"} 4`} {
		if !strings.Contains(string(text), line) {
			t.Errorf("metrics lack %s:\n%s", line, text)
		}
	}
}

// A return that is refused spends its ticket, and a repeated request gets another problem than one
// whose return is in.
func TestServer_RefusedReturnSpendsTicket(t *testing.T) {
	r := start(t, Options{}, described("ads", 10))
	m := r.models["ads"]
	good := m.codec.Append(nil, make([]float32, 10))
	for name, c := range map[string]struct {
		body []byte
		want problem
	}{
		"empty":      {nil, problemMalformed},
		"cut":        {good[:20], problemMalformed},
		"too large":  {make([]byte, m.codec.MaxSize()+1), problemTooLarge},
		"shape":      {safetensorsFile(`{"fc.weight":{"dtype":"F32","shape":[9,1],"data_offsets":[0,36]},"fc.bias":{"dtype":"F32","shape":[1],"data_offsets":[36,40]}}`, 40), problemShape},
		"not finite": {m.codec.Append(nil, append(make([]float32, 9), float32(math.NaN()))), problemNotFinite},
		"outlier":    {m.codec.Append(nil, append(make([]float32, 9), 1e9)), problemOutlier},
	} {
		_, ticket := r.draw(t, "ads")
		header := map[string]string{TicketHeader: ticket}
		response, text := r.do(t, "POST", "/v1/models/ads/return", header, c.body)
		wantProblem(t, response, text, c.want)
		for range 2 {
			response, text = r.do(t, "POST", "/v1/models/ads/return", header, good)
			if wantProblem(t, response, text, problemTicketRefused); t.Failed() {
				t.Fatal(name)
			}
		}
	}
	if n := m.updates.Load(); n != 0 {
		t.Errorf("%d updates", n)
	}
}

// safetensorsFile is a file with a header and a number of zeros.
func safetensorsFile(header string, zeros int) []byte {
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(file, header...), make([]byte, zeros)...)
}

// While a request returns a ticket, no other request does. A request that breaks off leaves the ticket
// valid, because its client sends the return again.
func TestServer_OneRequestForATicket(t *testing.T) {
	r := start(t, Options{}, described("ads", 10))
	file, ticket := r.draw(t, "ads")
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "POST /v1/models/ads/return HTTP/1.1\r\nHost: 127.0.0.1\r\n%s: %s\r\nContent-Length: %d\r\n\r\nabc", TicketHeader, ticket, len(file))
	waitFor(t, func() bool { return r.inFlight.Load() == 1 })
	for range 3 {
		response, text := r.do(t, "POST", "/v1/models/ads/return", map[string]string{TicketHeader: ticket}, file)
		wantProblem(t, response, text, problemTicketInUse)
	}
	c.Close()
	waitFor(t, func() bool { return r.inFlight.Load() == 0 })
	if response := r.give(t, "ads", ticket, file); response.StatusCode != 204 {
		t.Errorf("return after the broken one: %s", response.Status)
	}
}

// waitFor waits until a condition holds.
func waitFor(t testing.TB, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the condition does not hold after 10 seconds")
		}
	}
}

// largestShift is the largest shift of every weight from the average that a return with a ticket of
// some age can have, in standard deviations of the noise. It is 0 if the ticket has expired.
func largestShift(t *testing.T, m *Model, age uint64) float64 {
	t.Helper()
	mean := make([]float32, m.instances.Weights())
	m.instances.Average(mean)
	deviation := math.Sqrt(m.mechanism.NoiseVariance())
	updates := m.updates.Load()
	accepted := func(shift float64) bool {
		if m.tickets.isOld(ticket{updates: updates - age}, updates) {
			return false
		}
		w := make([]float32, len(mean))
		for i := range w {
			w[i] = mean[i] + float32(shift*deviation)
		}
		return m.filter.Test(w) == drawdiscard.Accepted
	}
	low, high := 0.0, 1e6
	for range 60 {
		if middle := (low + high) / 2; accepted(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// The largest shift that passes is the same for every age of a ticket, and a ticket that is too old
// passes nothing.
func TestServer_OldTicketAdmitsNoLargerShift(t *testing.T) {
	d := described("ads", 100)
	d.Instances, d.FalseAlarms, d.Settings.Epsilon = 20, 1e-3, 8
	r := start(t, Options{}, d)
	m := r.models["ads"]
	file, old := r.draw(t, "ads")
	m.updates.Store(4000)
	fresh, last := largestShift(t, m, 0), drawdiscard.MaxAge(20)
	t.Logf("largest shift %.2fσ with a fresh ticket", fresh)
	if !(fresh > 1 && fresh < 20) {
		t.Errorf("a shift of %vσ passes", fresh)
	}
	for _, age := range []uint64{1, 20, last} {
		if got := largestShift(t, m, age); got != fresh {
			t.Errorf("after %d updates a shift of %vσ passes, and %vσ with a fresh ticket", age, got, fresh)
		}
	}
	for _, age := range []uint64{last + 1, 4000} {
		if got := largestShift(t, m, age); got != 0 {
			t.Errorf("after %d updates a shift of %vσ passes", age, got)
		}
	}
	response, text := r.do(t, "POST", "/v1/models/ads/return", map[string]string{TicketHeader: old}, file)
	wantProblem(t, response, text, problemTicketExpired)
}

// Updates that arrive while a body is on its way count in the age of its ticket.
func TestServer_TicketAgesDuringBody(t *testing.T) {
	r := start(t, Options{}, described("ads", 10))
	m := r.models["ads"]
	file, ticket := r.draw(t, "ads")
	body, write := io.Pipe()
	request, _ := http.NewRequest("POST", r.url+"/v1/models/ads/return", body)
	request.Header.Set(TicketHeader, ticket)
	go func() {
		write.Write(file[:10])
		for r.inFlight.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		m.updates.Store(drawdiscard.MaxAge(5) + 1)
		write.Write(file[10:])
		write.Close()
	}()
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	wantProblem(t, response, text, problemTicketExpired)
}

// Files of other programs have other headers and orders of tensors.
func TestServer_AcceptsForeignSafetensors(t *testing.T) {
	r := start(t, Options{}, described("ads", 3))
	_, ticket := r.draw(t, "ads")
	header := `{"fc.bias":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"fc.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]},"__metadata__":{"format":"pt"}}`
	file := append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header...)
	file = appendWeights(file, []float32{0.25, 0.5, 0.75})
	if response := r.give(t, "ads", ticket, file); response.StatusCode != 204 {
		t.Fatal(response.Status)
	}
	for i := range r.models["ads"].instances.Count() {
		if w := r.models["ads"].instances.At(i).Weights; w[0] == 0.5 && w[1] == 0.75 && w[2] == 0.25 {
			return
		}
	}
	t.Error("the returned weights are in no slot")
}

func TestServer_TicketsExpire(t *testing.T) {
	r := start(t, Options{TicketLifetime: 50 * time.Millisecond}, described("ads", 10))
	file, ticket := r.draw(t, "ads")
	time.Sleep(60 * time.Millisecond)
	response, body := r.do(t, "POST", "/v1/models/ads/return", map[string]string{TicketHeader: ticket}, file)
	wantProblem(t, response, body, problemTicketExpired)
}

func TestServer_RequiresToken(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	r := start(t, Options{Tokens: []string{"another token, long", token}}, described("ads", 10))
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer " + token[:31], "Bearer " + token + "0", "Basic " + token, token, "Bearer another token, lonG"} {
		for _, path := range []string{"/v1/models", "/v1/models/ads", "/metrics", "/openapi.json", "/x"} {
			response, body := r.do(t, "GET", path, map[string]string{"Authorization": header}, nil)
			wantProblem(t, response, body, problemUnauthorized)
			if response.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Error("WWW-Authenticate is missing")
			}
		}
		response, body := r.do(t, "POST", "/v1/models/ads/draw", map[string]string{"Authorization": header}, nil)
		wantProblem(t, response, body, problemUnauthorized)
		if response.Header.Get(TicketHeader) != "" {
			t.Error("a ticket was issued")
		}
	}
	if response, _ := r.do(t, "POST", "/v1/models/ads/draw", map[string]string{"Authorization": "bearer " + token}, nil); response.StatusCode != 200 {
		t.Errorf("valid token: %s", response.Status)
	}
	if response, _ := r.do(t, "GET", "/healthz", nil, nil); response.StatusCode != 200 {
		t.Errorf("health: %s", response.Status)
	}
}

// No path of a request reaches the file system, and no name of a model leaves the folder.
func TestServer_RefusesPathTraversal(t *testing.T) {
	r := start(t, Options{Folder: t.TempDir()}, described("ads", 10))
	for _, path := range []string{
		"/v1/models/../../etc/passwd", "/v1/models/%2e%2e%2f%2e%2e%2fetc%2fpasswd/draw", "/v1/models/ads%2f..%2fother/draw",
		"/v1/models/..%5c..%5cads/draw", "/v1/models//etc/passwd", "/v1/models/ads/../ads/draw", "/v1/models/ads%00/draw", "/v1/models/./ads/draw",
	} {
		response, body := r.do(t, "POST", path, nil, nil)
		wantProblem(t, response, body, problemNotFound)
	}
	for _, name := range []string{"", ".", "..", "../x", "a/b", `a\b`, "a\x00", "-a", "A", strings.Repeat("a", 65), "a.b", "é"} {
		if s, err := New(Options{Folder: t.TempDir()}, []Description{described(name, 10)}); err == nil {
			s.closeModels()
			t.Errorf("name %q was accepted", name)
		}
	}
}

func TestServer_LimitsRateAndRequestsInFlight(t *testing.T) {
	r := start(t, Options{MaxRate: 5}, described("ads", 10))
	limited := 0
	for range 30 {
		response, body := r.do(t, "POST", "/v1/models/ads/draw", nil, nil)
		if response.StatusCode != 200 {
			wantProblem(t, response, body, problemRate)
			if response.Header.Get("Retry-After") == "" {
				t.Error("Retry-After is missing")
			}
			limited++
		}
	}
	if limited < 15 {
		t.Errorf("%d of 30 requests were limited", limited)
	}

	r = start(t, Options{MaxInFlight: 1}, described("ads", 10))
	_, ticket := r.draw(t, "ads")
	body, write := io.Pipe()
	request, _ := http.NewRequest("POST", r.url+"/v1/models/ads/return", body)
	request.Header.Set(TicketHeader, ticket)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if response, err := r.client.Do(request); err == nil {
			response.Body.Close()
		}
	}()
	write.Write([]byte("x")) // the request is in flight
	for r.inFlight.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	response, text := r.do(t, "GET", "/v1/models", nil, nil)
	wantProblem(t, response, text, problemBusy)
	if response, _ := r.do(t, "GET", "/healthz", nil, nil); response.StatusCode != 200 {
		t.Errorf("health of a busy server: %s", response.Status)
	}
	write.Close()
	<-done
}

// A client that sends its body or its header slowly is cut off, and its ticket stays valid.
func TestServer_CutsSlowClients(t *testing.T) {
	r := start(t, Options{Timeout: 400 * time.Millisecond}, described("ads", 10))
	file, ticket := r.draw(t, "ads")
	for _, opening := range []string{
		"POST /v1/models/ads/return HTTP/1.1\r\nHost: localhost\r\n",
		fmt.Sprintf("POST /v1/models/ads/return HTTP/1.1\r\nHost: localhost\r\n%s: %s\r\nContent-Length: %d\r\n\r\nabc", TicketHeader, ticket, len(file)),
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, opening)
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		answer, err := io.ReadAll(c)
		if err != nil {
			t.Errorf("the connection stays open: %v", err)
		}
		if strings.Contains(opening, "abc") && !strings.Contains(string(answer), "408") {
			t.Errorf("answer %q", answer)
		}
		c.Close()
	}
	if response := r.give(t, "ads", ticket, file); response.StatusCode != 204 {
		t.Errorf("return after the slow one: %s", response.Status)
	}
}

func TestNew_RejectsInvalid(t *testing.T) {
	good := described("ads", 10)
	for name, change := range map[string]func(*Description){
		"model":     func(d *Description) { d.Model = "tree" },
		"instances": func(d *Description) { d.Instances = 0 },
		"epsilon":   func(d *Description) { d.Settings.Epsilon = 0 },
		"alarms":    func(d *Description) { d.FalseAlarms = 2 },
	} {
		d := good
		change(&d)
		if _, err := New(Options{}, []Description{d}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := New(Options{}, nil); err == nil {
		t.Error("no model: no error")
	}
	if _, err := New(Options{}, []Description{good, good}); err == nil {
		t.Error("equal names: no error")
	}
	if _, err := New(Options{MaxRate: -1}, []Description{good}); err == nil {
		t.Error("negative limit: no error")
	}
}

func TestListen_RefusesOpenAddresses(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0", "192.0.2.1:80", "example.org:80"} {
		for _, c := range [][2]bool{{false, false}, {true, false}, {false, true}} {
			if l, err := Listen(address, c[0], c[1]); err == nil {
				l.Close()
				t.Errorf("%s, TLS %v, tokens %v: it listens", address, c[0], c[1])
			}
		}
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0"} {
		l, err := Listen(address, false, false)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	if _, err := Listen("127.0.0.1", false, false); err == nil {
		t.Error("no port: no error")
	}
}
