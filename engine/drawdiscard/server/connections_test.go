package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// The servers of these tests have few places, so a few connections are a flood.

// dialFrom connects from a loopback address other than the honest client's. Linux and Windows have
// 127.0.0.2.
func dialFrom(t testing.TB, r *running, from string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
	c, err := d.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Skipf("no second loopback address: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// statusOf reads the status of an answer.
func statusOf(c net.Conn) string {
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

// pairWithin draws and returns on new connections within a few seconds.
func pairWithin(t *testing.T, r *running, when string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 4 * time.Second}
	response, err := client.Post(r.url+"/v1/models/ads/draw", "", nil)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	file, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("%s: draw %s %v", when, response.Status, err)
	}
	request, _ := http.NewRequest("POST", r.url+"/v1/models/ads/return", strings.NewReader(string(file)))
	request.Header.Set(TicketHeader, response.Header.Get(TicketHeader))
	if response, err = client.Do(request); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	response.Body.Close()
	if response.StatusCode != 204 {
		t.Fatalf("%s: return %s", when, response.Status)
	}
}

// Connections without a request stop no one: those that send nothing, those that send a part of a header,
// and those that wait for their next request. Neither do those that never send the body of a request
// that was refused or that needs none.
func TestServer_WaitingConnectionsStopNoOne(t *testing.T) {
	const places = 8
	for name, opening := range map[string]string{
		"nothing":                   "",
		"a part of a header":        "POST /v1/models/ads/draw HTTP/1.1\r\nHost: 127.0.0.1\r\n",
		"between requests":          "GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"body of a refused request": "POST /x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n",
		"body of a draw":            "POST /v1/models/ads/draw HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n",
	} {
		r := start(t, Options{MaxConnections: places, MaxShare: 1}, described("ads", 10))
		for range 5 * places {
			fmt.Fprint(dialFrom(t, r, "127.0.0.1"), opening)
		}
		if strings.HasPrefix(name, "body") {
			time.Sleep(unreadBody + 200*time.Millisecond)
		}
		pairWithin(t, r, name)
	}
}

// One address has a share of the connections and of the requests at once: its slow bodies stop no one
// else.
func TestServer_OneAddressHasAShare(t *testing.T) {
	r := start(t, Options{MaxConnections: 40, MaxInFlight: 8}, described("ads", 10)) // a share: 10 and 2
	var slow []net.Conn
	for range 20 {
		c := dialFrom(t, r, "127.0.0.2")
		_, ticket := r.draw(t, "ads")
		fmt.Fprintf(c, "POST /v1/models/ads/return HTTP/1.1\r\nHost: 127.0.0.1\r\n%s: %s\r\nContent-Length: 200\r\n\r\nabc", TicketHeader, ticket)
		slow = append(slow, c)
	}
	waitFor(t, func() bool { return r.inFlight.Load() >= 2 })
	pairWithin(t, r, "slow bodies from another address")
	waitFor(t, func() bool { return r.inFlight.Load() == 2 }) // a request counts until it is refused
	if status := statusOf(slow[5]); !strings.Contains(status, "503") && !strings.Contains(status, "reset") && status != "EOF" {
		t.Errorf("a request beyond the share: %s", status)
	}
	c := dialFrom(t, r, "127.0.0.2")
	fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	if status := statusOf(c); !strings.Contains(status, "200") {
		t.Errorf("health for the same address: %s", status)
	}
}

// One token has a share of the requests at once and in a second.
func TestServer_OneTokenHasAShare(t *testing.T) {
	const mine, other = "0123456789abcdef-mine", "0123456789abcdef-other"
	r := start(t, Options{MaxRate: 40, MaxShare: 0.25, Tokens: []string{mine, other}}, described("ads", 10))
	r.address = newShares[netip.Prefix](1000, 1000) // the limit of the address is not the subject
	get := func(token string) *http.Response {
		response, _ := r.do(t, "GET", "/v1/models", map[string]string{"Authorization": "Bearer " + token}, nil)
		return response
	}
	limited := 0
	for range 30 {
		if get(mine).StatusCode == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited < 10 {
		t.Errorf("%d of 30 requests beyond the share of 10 a second were limited", limited)
	}
	if got := get(other); got.StatusCode != 200 {
		t.Errorf("another token: %s", got.Status)
	}
}

// /healthz is answered where no request and no connection has a place.
func TestServer_HealthHasAReserve(t *testing.T) {
	r := start(t, Options{MaxConnections: 3, MaxInFlight: 3, MaxShare: 1}, described("ads", 10))
	for i := range int64(3) { // each draws on its own connection: no other connection needs a place
		c := dialFrom(t, r, "127.0.0.1")
		fmt.Fprint(c, "POST /v1/models/ads/draw HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n")
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		fmt.Fprintf(c, "POST /v1/models/ads/return HTTP/1.1\r\nHost: 127.0.0.1\r\n%s: %s\r\nContent-Length: 200\r\n\r\nabc", TicketHeader, response.Header.Get(TicketHeader))
		waitFor(t, func() bool { return r.inFlight.Load() == i+1 })
	}
	for range 2 {
		response, _ := r.do(t, "GET", "/healthz", nil, nil)
		if response.StatusCode != 200 {
			t.Errorf("health: %s", response.Status)
		}
		response, body := r.do(t, "GET", "/v1/models", nil, nil)
		wantProblem(t, response, body, problemBusy)
	}
	for range reservedConnections + 5 { // the reserve is limited, and those that wait make room
		dialFrom(t, r, "127.0.0.1")
	}
	c := dialFrom(t, r, "127.0.0.1")
	fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	if status := statusOf(c); !strings.Contains(status, "200") {
		t.Errorf("health after more connections: %s", status)
	}
}

// The table of connections is empty after they end, with and without TLS.
func TestConnections_AreForgotten(t *testing.T) {
	certFile, keyFile, roots := certificate(t)
	for _, secure := range []bool{false, true} {
		s, err := New(Options{MaxConnections: 4, MaxShare: 1}, []Description{described("ads", 10)})
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		table := newConnections(l, 4, 4)
		url, cert, key := "http://"+l.Addr().String(), "", ""
		if secure {
			url, cert, key = "https://"+l.Addr().String(), certFile, keyFile
			s.http.TLSConfig = newTLSConfig()
		}
		go func() {
			if secure {
				s.http.ServeTLS(table, cert, key)
			} else {
				s.http.Serve(table)
			}
		}()
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
		client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
		var idle []net.Conn
		for range 20 { // more than there are places: idle ones make room
			if response, err := client.Get(url + "/v1/models"); err != nil || response.StatusCode != 200 {
				t.Fatalf("TLS %v: %v %v", secure, response, err)
			} else {
				response.Body.Close()
			}
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			idle = append(idle, c)
		}
		table.mu.Lock()
		if table.count > 4 || table.waiting.Len() > 4 {
			t.Errorf("TLS %v: %d connections, %d wait", secure, table.count, table.waiting.Len())
		}
		table.mu.Unlock()
		for _, c := range idle {
			c.Close()
		}
		transport.CloseIdleConnections()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		waitFor(t, func() bool {
			table.mu.Lock()
			defer table.mu.Unlock()
			return table.count == 0 && table.waiting.Len() == 0 && len(table.addresses) == 0
		})
	}
}

// A page of another site that a browser shows on this machine has another Host (DNS rebinding).
func TestServer_ChecksHostOnLoopback(t *testing.T) {
	r := start(t, Options{Hosts: []string{"models.example.org"}}, described("ads", 10))
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(r.url, "http://"))
	send := func(path, host string) (*http.Response, []byte) {
		request, _ := http.NewRequest("GET", r.url+path, nil)
		request.Host = host
		response, err := r.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return response, body
	}
	for _, host := range []string{"attacker.example.org:" + port, "127.0.0.1.example.org", "0.0.0.0:" + port, "models.example.org.attacker.net"} {
		for _, path := range []string{"/v1/models", "/v1/models/ads", "/metrics", "/openapi.json"} {
			response, body := send(path, host)
			wantProblem(t, response, body, problemMisdirected)
		}
		if response, _ := send("/healthz", host); response.StatusCode != 200 {
			t.Errorf("health: %s", response.Status)
		}
	}
	for _, host := range []string{"localhost:" + port, "127.0.0.1:" + port, "[::1]:1", "models.example.org", "Models.example.org:443"} {
		if response, _ := send("/v1/models", host); response.StatusCode != 200 {
			t.Errorf("host %s: %s", host, response.Status)
		}
	}
	r.local.Store(false)
	if response, _ := send("/v1/models", "models.example.net"); response.StatusCode != 200 {
		t.Errorf("a server for other machines: %s", response.Status)
	}
}

func TestAddressOf_GroupsNetworks(t *testing.T) {
	for _, same := range [][2]string{{"192.0.2.1:1", "192.0.2.1:2"}, {"[2001:db8:1:2::3]:4", "[2001:db8:1:2:ffff::]:1"}, {"[::ffff:192.0.2.1]:1", "192.0.2.1:1"}, {"[fe80::1%eth0]:1", "[fe80::2]:1"}} {
		if addressOf(same[0]) != addressOf(same[1]) {
			t.Errorf("%v: %v and %v", same, addressOf(same[0]), addressOf(same[1]))
		}
	}
	for _, differ := range [][2]string{{"192.0.2.1:1", "192.0.2.2:1"}, {"[2001:db8:1:2::3]:4", "[2001:db8:1:3::3]:4"}} {
		if addressOf(differ[0]) == addressOf(differ[1]) {
			t.Errorf("%v: both %v", differ, addressOf(differ[0]))
		}
	}
}

// Clients without requests are forgotten, and others are not.
func TestShares_ForgetsIdleClients(t *testing.T) {
	s := newShares[int](1, 1000)
	for key := range 3 * minSweep {
		if p := s.enter(key); p != nil {
			t.Fatal(p)
		}
		if key != 7 {
			s.leave(key)
		}
		s.all[key].rate.next.Store(0) // a second later
	}
	if len(s.all) > minSweep+1 {
		t.Errorf("%d clients are kept", len(s.all))
	}
	if p := s.enter(7); p == nil || p.name != problemBusy.name {
		t.Errorf("a client with a request was forgotten: %v", p)
	}
}

func TestParseTokens_SkipsComments(t *testing.T) {
	const token = "0123456789abcdef"
	got, err := ParseTokens("# tokens of the production server\n\n" + token + "\r\n  #0123456789abcdef0123\n\tabcdefghijklmnop+/=\n")
	if want := []string{token, "abcdefghijklmnop+/="}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v", got, err)
	}
	for _, text := range []string{"", "# only a comment, which is long enough\n", token + " # of Alice\n", "two words that are long enough\n", "short\n", token + "\n\x00" + token, "; not a comment here either\n"} {
		if got, err := ParseTokens(text); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// Requests of one address that are answered at the same time have a limited number of connections, and
// none of the places of others.
func TestConnections_LimitOfAddress(t *testing.T) {
	const most, perAddress = 100, 10
	table := newConnections(nil, most, perAddress)
	one, other := addressOf("192.0.2.1:1"), addressOf("192.0.2.2:1")
	for i := range perAddress + reservedConnections + 5 {
		c := &connection{table: table, address: one}
		ended, ok := table.add(c)
		if ended != nil || ok != (i < perAddress+reservedConnections) || ok && c.reserved != (i >= perAddress) {
			t.Fatalf("connection %d: %v, reserved %v", i, ok, c.reserved)
		}
		if ok {
			table.stopWaiting(c) // a request is answered
		}
	}
	c := &connection{table: table, address: other}
	if ended, ok := table.add(c); ended != nil || !ok || c.reserved {
		t.Errorf("another address: %v, reserved %v", ok, c.reserved)
	}
	if table.count != perAddress+reservedConnections+1 {
		t.Errorf("%d connections", table.count)
	}
}
