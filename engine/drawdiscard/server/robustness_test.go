package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/drawdiscard"
)

// FuzzServer_Requests sends any method, path, ticket and body. The server answers with a status
// below 500 or a problem, never panics, and every slot keeps finite weights of the right number.
func FuzzServer_Requests(f *testing.F) {
	d := described("ads", 10)
	d.Instances = 2
	s, err := New(Options{MaxRate: 1e9}, []Description{d})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Shutdown(context.Background()) })
	m := s.models["ads"]
	good := m.codec.Append(nil, make([]float32, 10))
	f.Add("POST", "/v1/models/ads/return", "", false, good)
	f.Add("POST", "/v1/models/ads/return", "", true, good)
	f.Add("POST", "/v1/models/ads/return", "", true, good[:11])
	f.Add("POST", "/v1/models/ads/return", "AAAA", false, []byte("\xff\xff\xff\xff\xff\xff\xff\x7f{}"))
	f.Add("POST", "/v1/models/ads/draw", "", false, []byte{})
	f.Add("GET", "/v1/models/../ads", "", false, []byte{})
	f.Add("PUT", "/metrics", "", false, []byte("x"))
	f.Fuzz(func(t *testing.T, method, path, ticket string, valid bool, body []byte) {
		request, err := http.NewRequest(method, "http://127.0.0.1/", bytes.NewReader(body))
		if err != nil {
			return
		}
		request.URL.Path = path
		if valid {
			ticket = m.tickets.issue(time.Now(), m.updates.Load())
		}
		request.Header[TicketHeader] = []string{ticket}
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, request)
		if answer.Code >= 500 {
			t.Errorf("%s %q: status %d", method, path, answer.Code)
		}
		if answer.Code >= 400 && answer.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %q: status %d of type %s", method, path, answer.Code, answer.Header().Get("Content-Type"))
		}
		for i := range m.instances.Count() {
			if _, err := m.codec.Decode(m.codec.Append(nil, m.instances.At(i).Weights)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzCodec_Decode decodes any file: what it accepts is finite and has the right size, and is
// written back as a file that decodes to the same weights.
func FuzzCodec_Decode(f *testing.F) {
	codec, err := drawdiscard.NewCodec([]drawdiscard.TensorShape{{Name: "a", Shape: []int{2, 2}}, {Name: "b", Shape: []int{1}}})
	if err != nil {
		f.Fatal(err)
	}
	good := codec.Append(nil, []float32{1, 2, 3, 4, 5})
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(append(bytes.Clone(good), 0))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, file []byte) {
		weights, err := codec.Decode(file)
		if err != nil {
			return
		}
		again, err := codec.Decode(codec.Append(nil, weights))
		if err != nil || len(again) != 5 {
			t.Fatalf("%v: %v", weights, err)
		}
	})
}

// FuzzJournal_Recover reads any journal after a valid header: it gives whole instances.
func FuzzJournal_Recover(f *testing.F) {
	folder := f.TempDir()
	writePattern(f, folder, 3)
	j := newJournal(folder, [32]byte{1}, 3, patternWeights)
	all, err := os.ReadFile(j.path(0))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(all[journalHeader:])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, records []byte) {
		if err := os.WriteFile(j.path(0), append(j.header(0), records...), 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := recoverPattern(folder)
		if errors.Is(err, engine.ErrDamaged) {
			err = nil
		}
		if err != nil || len(s.instances) != 3 {
			t.Fatal(err)
		}
		for _, i := range s.instances {
			if len(i.Weights) != patternWeights {
				t.Fatal(i)
			}
		}
	})
}

// A flood of bad requests of all kinds leaves the memory flat. 10,000 requests;
// DPTRAIN_FLOOD_REQUESTS sets another number, such as 1000000.
func TestServer_FloodKeepsMemoryFlat(t *testing.T) {
	requests := 10_000
	if text := os.Getenv("DPTRAIN_FLOOD_REQUESTS"); text != "" {
		requests, _ = strconv.Atoi(text)
	}
	r := start(t, Options{MaxRate: 1e9}, described("ads", 1000))
	m := r.models["ads"]
	huge := make([]byte, m.codec.MaxSize()+1)
	good := m.codec.Append(nil, make([]float32, 1000))
	_, used := r.draw(t, "ads")
	r.give(t, "ads", used, good)
	kinds := []func(i int) (path, ticket string, body []byte){
		func(i int) (string, string, []byte) { return "/v1/models/ads/return", fmt.Sprint("ticket", i), good },
		func(i int) (string, string, []byte) { return "/v1/models/ads/return", used, good },
		func(i int) (string, string, []byte) { return fmt.Sprint("/v1/models/m", i, "/draw"), "", nil },
		func(i int) (string, string, []byte) { return "/v1/models/ads/draw", "", nil },
		func(i int) (string, string, []byte) {
			return "/v1/models/ads/return", m.tickets.issue(time.Now(), 0), good[:i%len(good)]
		},
		func(i int) (string, string, []byte) {
			return "/v1/models/ads/return", m.tickets.issue(time.Now(), 0), huge
		},
	}
	send := func(n int) {
		t.Helper()
		for i := range n {
			path, ticket, body := kinds[i%len(kinds)](i)
			header := map[string]string{}
			if ticket != "" {
				header[TicketHeader] = ticket
			}
			if response, _ := r.do(t, "POST", path, header, body); response.StatusCode >= 500 {
				t.Fatalf("%s: %s", path, response.Status)
			}
		}
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	send(requests / 10)
	before := heap()
	send(requests)
	after := heap()
	t.Logf("heap %d KiB before and %d KiB after %d bad requests", before>>10, after>>10, requests)
	if after > before+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	if n := m.updates.Load(); n > 1 {
		t.Errorf("%d updates from bad requests", n)
	}
}

// The memory of a model is its k instances, of 4 bytes a weight, and what does not depend on k.
func TestModel_MemoryIsThatOfItsInstances(t *testing.T) {
	const weights = 50_000
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	used := map[int]int64{}
	for _, k := range []int{10, 100} {
		d := described("ads", weights)
		d.Instances, d.FalseAlarms = k, 0
		before := heap()
		m, err := openModel(d, modelOptions{t.TempDir(), time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 3 * k {
			if _, err := m.replace(patterned(weights, float32(n)), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		used[k] = heap() - before
		if err := m.close(); err != nil {
			t.Fatal(err)
		}
		runtime.KeepAlive(m)
	}
	if grown, want := used[100]-used[10], int64(90*4*weights); grown < want || float64(grown) > 1.05*float64(want) {
		t.Errorf("90 more instances take %d bytes, want %d", grown, want)
	}
	if most := int64(4<<20 + 10*4*weights); used[10] > most {
		t.Errorf("10 instances take %d bytes, more than %d", used[10], most)
	}
}

// Requests whose files would take more memory than the limit are refused.
func TestServer_LimitsMemoryOfRequests(t *testing.T) {
	r := start(t, Options{}, described("ads", 10))
	file, ticket := r.draw(t, "ads")
	r.memory.Add(maxFileMemory)
	for _, path := range []string{"draw", "return"} {
		response, body := r.do(t, "POST", "/v1/models/ads/"+path, map[string]string{TicketHeader: ticket}, file)
		wantProblem(t, response, body, problemBusy)
	}
	r.memory.Add(-maxFileMemory)
	if response := r.give(t, "ads", ticket, file); response.StatusCode != 204 {
		t.Error(response.Status)
	}
	if r.memory.Load() != 0 {
		t.Errorf("%d bytes are still counted", r.memory.Load())
	}
}

// Shutdown ends every goroutine, also of clients that are slow, idle or gone.
func TestServer_LeaksNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	r := start(t, Options{Folder: t.TempDir(), Timeout: time.Second}, described("ads", 100), described("typing", 100))
	for range 20 {
		file, ticket := r.draw(t, "ads")
		r.give(t, "ads", ticket, file)
	}
	var conns []net.Conn
	for i := range 20 {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		if i%2 == 0 {
			fmt.Fprint(c, "POST /v1/models/ads/return HTTP/1.1\r\nContent-Length: 100\r\n")
		}
		if i%4 == 0 {
			c.Close()
		}
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	for _, c := range conns {
		c.Close()
	}
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before {
		stacks := make([]byte, 1<<16)
		t.Errorf("%d goroutines before and %d after:\n%s", before, n, stacks[:runtime.Stack(stacks, true)])
	}
}

// Shutdown lets a return that has begun finish, and keeps it.
func TestServer_ShutdownDrains(t *testing.T) {
	folder := t.TempDir()
	r := start(t, Options{Folder: folder}, described("ads", 10))
	file, ticket := r.draw(t, "ads")
	body, write := io.Pipe()
	request, _ := http.NewRequest("POST", r.url+"/v1/models/ads/return", body)
	request.Header.Set(TicketHeader, ticket)
	request.ContentLength = int64(len(file))
	answers := make(chan string, 1)
	go func() {
		response, err := r.client.Do(request)
		if err != nil {
			answers <- err.Error()
			return
		}
		response.Body.Close()
		answers <- response.Status
	}()
	write.Write(file[:10])
	for r.inFlight.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	time.Sleep(50 * time.Millisecond)
	write.Write(file[10:])
	write.Close()
	if got := <-answers; !strings.HasPrefix(got, "204") {
		t.Errorf("the return in flight: %s", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	again := start(t, Options{Folder: folder}, described("ads", 10))
	if n := again.models["ads"].updates.Load(); n != 1 {
		t.Errorf("%d updates after the restart", n)
	}
}

// certificate writes a certificate for 127.0.0.1 that signs itself.
func certificate(t testing.TB) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	certFile, keyFile = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return certFile, keyFile, roots
}

// A TLS server answers neither plain HTTP nor TLS below 1.3.
func TestServer_RefusesTLSDowngrade(t *testing.T) {
	certFile, keyFile, roots := certificate(t)
	s, err := New(Options{}, []Description{described("ads", 10)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := Listen("127.0.0.1:0", true, false)
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l, certFile, keyFile)
	defer s.Shutdown(context.Background())
	get := func(scheme string, most uint16) (*http.Response, error) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MaxVersion: most}, DisableKeepAlives: true}, Timeout: 5 * time.Second}
		return client.Get(scheme + "://" + l.Addr().String() + "/v1/models/ads")
	}
	response, err := get("https", tls.VersionTLS13)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 || response.TLS.Version != tls.VersionTLS13 {
		t.Errorf("TLS 1.3: %s", response.Status)
	}
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12} {
		if response, err := get("https", version); err == nil {
			response.Body.Close()
			t.Errorf("TLS version %x: %s", version, response.Status)
		}
	}
	if response, err := get("http", 0); err == nil {
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		if response.StatusCode != 400 || len(body) > 200 {
			t.Errorf("plain HTTP: %s %q", response.Status, body)
		}
	}
}
