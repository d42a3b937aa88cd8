// Package loopback recognizes addresses that only this machine reaches.
package loopback

import (
	"net"
	"net/http"
	"strings"
)

// IsHost reports whether a host is this machine only: localhost or a loopback address. The empty host
// is all interfaces.
func IsHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// IsListener reports whether only this machine reaches a listener.
func IsListener(l net.Listener) bool {
	a, ok := l.Addr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// NamesHost reports whether the Host header of a request, with or without a port, names this machine. A
// page of another site that a browser of this machine shows can send requests to a loopback address
// under a name of its own (DNS rebinding); they have that name. Browsers send the header always, so a
// request without one passes.
func NamesHost(header string) bool {
	host := header
	if h, _, err := net.SplitHostPort(header); err == nil {
		host = h
	}
	return header == "" || IsHost(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
}

// Handler answers requests that name this machine with next, and the others with refuse, which gets the
// status and the reason.
func Handler(next http.Handler, refuse func(w http.ResponseWriter, status int, reason string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !NamesHost(r.Host) {
			refuse(w, http.StatusMisdirectedRequest, "the request names another host; use 127.0.0.1 or localhost")
			return
		}
		next.ServeHTTP(w, r)
	})
}
