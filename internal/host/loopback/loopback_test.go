package loopback

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestNamesHost(t *testing.T) {
	for header, want := range map[string]bool{
		"": true, "localhost": true, "LocalHost:8080": true, "127.0.0.1": true, "127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]": true, "[::1]:8080": true, "::1": true,
		"example.org": false, "example.org:8080": false, "127.0.0.1.example.org": false, "localhost.example.org:1": false, "0.0.0.0:1": false, "192.0.2.1": false, ":80": false, "[::]:1": false, "load": false,
	} {
		if got := NamesHost(header); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
}

// A request that names another host does not reach the handler.
func TestHandler_RefusesOtherNames(t *testing.T) {
	answered, refused := 0, 0
	h := Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { answered++ }),
		func(_ http.ResponseWriter, status int, reason string) {
			if refused++; status != http.StatusMisdirectedRequest || reason == "" {
				t.Errorf("refused with the status %d and the reason %q", status, reason)
			}
		})
	for _, host := range []string{"localhost:80", "127.0.0.1", "example.org", "localhost.example.org"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	if answered != 2 || refused != 2 {
		t.Errorf("%d requests were answered and %d refused, want 2 and 2", answered, refused)
	}
}
