//go:build unix

package server

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// costMargin is how many times more processor time a byte of any request may take than a byte of an
// honest return. A request that is shorter than an honest return may take as much as costMargin of
// these.
const costMargin = 10

// costed is a kind of request. Make returns the request as it is sent.
type costed struct {
	name   string
	status int
	make   func() []byte
}

// requestKinds lists what strangers can send to a model. The first kind is an honest return.
func requestKinds(m *Model) []costed {
	weights := make([]float32, m.mechanism.Weights())
	m.instances.Average(weights)
	good := m.codec.Append(nil, weights)
	with := func(i int, v float32) []byte {
		w := bytes.Clone(good)
		binary.LittleEndian.PutUint32(w[len(w)-4*(len(weights)-i):], math.Float32bits(v))
		return w
	}
	issue := func() string { return m.tickets.issue(time.Now(), m.updates.Load()) }
	used := issue()
	c, _ := m.tickets.parse(used, time.Now(), m.updates.Load())
	m.tickets.settle(c, ticketSpent)
	request := func(method, path, header string, body []byte) []byte {
		head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%sContent-Length: %d\r\n\r\n", method, path, header, len(body))
		return append([]byte(head), body...)
	}
	path := "/v1/models/" + m.description.Name
	ticketed := func(ticket string, body []byte) []byte {
		return request("POST", path+"/return", TicketHeader+": "+ticket+"\r\n", body)
	}
	returned := func(body []byte) func() []byte { return func() []byte { return ticketed(issue(), body) } }
	chunked := func(body []byte, size int) func() []byte {
		var b bytes.Buffer
		for ; len(body) > size; body = body[size:] {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", size, body[:size])
		}
		fmt.Fprintf(&b, "%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		return func() []byte {
			return append(fmt.Appendf(nil, "POST %s/return HTTP/1.1\r\nHost: 127.0.0.1\r\n%s: %s\r\nTransfer-Encoding: chunked\r\n\r\n", path, TicketHeader, issue()), b.Bytes()...)
		}
	}
	// filled returns the longest file that the codec reads, of an opening, parts, and an end.
	filled := func(opening string, part func(i int) string, end string) []byte {
		room := m.codec.MaxSize() - 4*len(weights) - 8 - len(opening) - len(end)
		var b strings.Builder
		for i := 0; ; i++ {
			p := part(i)
			if b.Len()+len(p) > room {
				break
			}
			b.WriteString(p)
		}
		return safetensorsFile(opening+b.String()+end, 4*len(weights))
	}
	entry := fmt.Sprintf(`"fc.weight":{"dtype":"F32","shape":[1,%d],"data_offsets":[0,%d]},"fc.bias":{"dtype":"F32","shape":[1],"data_offsets":[%[2]d,%d]}`, len(weights)-1, 4*len(weights)-4, 4*len(weights))
	half := fmt.Sprintf(`{"fc.weight":{"dtype":"BF16","shape":[1,%d],"data_offsets":[0,%d]},"fc.bias":{"dtype":"F16","shape":[1],"data_offsets":[%[2]d,%d]}}`, len(weights)-1, 2*len(weights)-2, 2*len(weights))
	return []costed{
		{"honest return", 204, returned(good)},
		{"other order", 204, returned(filled("{"+entry+`,"__metadata__":{"a":"b"}`, func(int) string { return " " }, "}"))},
		{"bfloat16", 204, returned(safetensorsFile(half, 2*len(weights)))},
		{"metadata", 204, returned(filled("{"+entry+`,"__metadata__":{"":""`, func(i int) string { return fmt.Sprintf(`,"%x":""`, i) }, "}}"))},
		{"metadata of escapes", 204, returned(filled("{"+entry+`,"__metadata__":{"":""`, func(int) string { return `,"\u0041":""` }, "}}"))},
		{"empty tensors", 422, returned(filled("{"+entry, func(i int) string {
			return fmt.Sprintf(`,"%x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}`, i)
		}, "}"))},
		{"long shape", 422, returned(filled(`{"fc.weight":{"dtype":"F32","shape":[1`, func(int) string { return ",1" }, `],"data_offsets":[0,4]}}`))},
		{"deep nesting", 400, returned(filled("{"+entry+`,"__metadata__":`, func(int) string { return "[" }, "}"))},
		{"a tensor again and again", 400, returned(filled("{"+entry, func(int) string { return "," + entry }, "}"))},
		{"no body", 400, returned(nil)},
		{"cut body", 400, returned(good[:len(good)/2])},
		{"zeros", 400, returned(make([]byte, len(good)))},
		{"not finite", 422, returned(with(len(weights)-1, float32(math.NaN())))},
		{"outlier", 422, returned(with(0, 1e6))},
		{"outlier at the end", 422, returned(with(len(weights)-1, 1e6))},
		{"chunks of 1 byte", 204, chunked(good, 1)},
		{"chunks of 1000 bytes", 204, chunked(good, 1000)},
		{"used ticket", 409, func() []byte { return ticketed(used, good) }},
		{"no ticket", 400, func() []byte { return request("POST", path+"/return", "", good) }},
		{"false ticket", 400, func() []byte { return ticketed(strings.Repeat("A", len(used)), good) }},
		{"draw", 200, func() []byte { return request("POST", path+"/draw", "", nil) }},
		{"average", 200, func() []byte { return request("GET", path, "", nil) }},
		{"models", 200, func() []byte { return request("GET", "/v1/models", "", nil) }},
		{"metrics", 200, func() []byte { return request("GET", "/metrics", "", nil) }},
		{"description", 200, func() []byte { return request("GET", "/openapi.json", "", nil) }},
		{"health", 200, func() []byte { return request("GET", "/healthz", "", nil) }},
		{"other path", 404, func() []byte { return request("GET", "/"+strings.Repeat("x", 4000), "", nil) }},
	}
}

// serveCost is the processor time of one request of a kind, the least of some rounds, and its size.
// The client is in the same process: its time counts on both sides of a comparison.
func serveCost(t *testing.T, url string, k costed, rounds, requests int) (each time.Duration, size int) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { c.Close() }()
	in := bufio.NewReader(c)
	each = time.Hour
	for range rounds {
		before := cpuTime(t)
		for range requests {
			text := k.make()
			size = len(text)
			if _, err := c.Write(text); err != nil {
				t.Fatalf("%s: %v", k.name, err)
			}
			response, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("%s: %v", k.name, err)
			}
			body, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if response.StatusCode != k.status {
				t.Fatalf("%s: %s, want %d: %.300s", k.name, response.Status, k.status, body)
			}
			if response.Close {
				c.Close()
				if c, err = net.Dial("tcp", strings.TrimPrefix(url, "http://")); err != nil {
					t.Fatal(err)
				}
				in.Reset(c)
			}
		}
		each = min(each, (cpuTime(t)-before)/time.Duration(requests))
	}
	return each, size
}

// No kind of request costs more processor time than it pays in bytes: at most costMargin times as much
// as an honest return for each byte, or as an honest return altogether if it is shorter. The server
// has many instances, which a request for the average or the metrics must not read each time.
func TestServer_NoRequestCostsMoreThanItPays(t *testing.T) {
	for _, weights := range []int{100, 20_000} {
		d := described("ads", weights)
		d.Instances = 500
		r := start(t, Options{Folder: t.TempDir(), MaxRate: 1e9}, d)
		kinds := requestKinds(r.models["ads"])
		const rounds = 5
		requests := 60
		if weights > 1000 {
			requests = 12
		}
		honest, size := serveCost(t, r.url, kinds[0], rounds, requests)
		for _, k := range kinds[1:] {
			r.models["ads"].updates.Store(0) // a short refresh of the filter would be part of the cost
			cost, sent := serveCost(t, r.url, k, rounds, requests)
			allowed := time.Duration(costMargin * float64(honest) * max(1, float64(sent)/float64(size)))
			t.Logf("%d weights: %-26s %6d bytes, %8v, %5.2f honest returns, %5.1f%% of the limit", weights, k.name, sent, cost.Round(time.Microsecond), float64(cost)/float64(honest), 100*float64(cost)/float64(allowed))
			if cost > allowed {
				t.Errorf("%d weights: %s of %d bytes takes %v, and an honest return of %d bytes %v", weights, k.name, sent, cost, size, honest)
			}
		}
	}
}

// drip delivers one byte at a time, as a network does from a client that sends one byte a packet. The
// bytes that arrive between two reads are read together.
type drip struct {
	file  []byte
	began time.Time
	given int
	reads int
}

func (d *drip) Read(b []byte) (int, error) {
	if d.given == len(d.file) {
		return 0, io.EOF
	}
	if d.reads++; d.began.IsZero() {
		d.began = time.Now()
	}
	for { // a byte every 10 µs
		arrived := min(len(d.file), 1+int(time.Since(d.began)/(10*time.Microsecond)))
		if n := copy(b, d.file[d.given:arrived]); n > 0 {
			d.given += n
			return n, nil
		}
	}
}

// A client that sends single bytes does not make the server read single bytes: each read is a call of
// the system.
func TestServer_ReadsFewTimes(t *testing.T) {
	r := start(t, Options{}, described("ads", 2000))
	m := r.models["ads"]
	file := &drip{file: m.codec.Append(nil, make([]float32, 2000))}
	request := httptest.NewRequest("POST", "http://127.0.0.1/v1/models/ads/return", file)
	request.Header.Set(TicketHeader, m.tickets.issue(time.Now(), 0))
	answer := httptest.NewRecorder()
	r.ServeHTTP(answer, request)
	if answer.Code != 204 {
		t.Fatal(answer.Code, answer.Body)
	}
	if file.reads > 100 {
		t.Errorf("%d bytes were read in %d parts", len(file.file), file.reads)
	}
}

// A body that arrives below the least rate is cut off, long before the time limit of a request, and
// leaves its ticket valid.
func TestServer_CutsBodiesBelowLeastRate(t *testing.T) {
	r := startWith(t, Options{Timeout: time.Minute}, func(s *Server) { s.grace = 300 * time.Millisecond }, described("ads", 10_000))
	file, ticket := r.draw(t, "ads")
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	fmt.Fprintf(c, "POST /v1/models/ads/return HTTP/1.1\r\nHost: 127.0.0.1\r\n%s: %s\r\nContent-Length: %d\r\n\r\n", TicketHeader, ticket, len(file))
	stop := make(chan struct{})
	defer close(stop)
	go func() { // 2 KB a second
		for i := 0; ; i += 100 {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				c.Write(file[i : i+100])
			}
		}
	}()
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	wantProblem(t, response, text, problemTimeout)
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("the body was cut off after %v", d)
	}
	if response := r.give(t, "ads", ticket, file); response.StatusCode != 204 {
		t.Errorf("return after the slow one: %s", response.Status)
	}
}
