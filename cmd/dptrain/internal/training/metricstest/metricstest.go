// Package metricstest has what tests of the metrics server share.
package metricstest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
)

// FreeAddress returns a local address on which no program listens. Its port is outside the range of
// automatic ports.
func FreeAddress(t *testing.T) string {
	t.Helper()
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000))); err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Skipf("no network here: %v", err)
	return ""
}

// Scrape gets the metrics from an address.
func Scrape(address string) (status int, text string, err error) {
	got, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return 0, "", err
	}
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	return got.StatusCode, string(b), err
}
