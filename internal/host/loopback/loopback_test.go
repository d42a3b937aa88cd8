package loopback

import "testing"

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
