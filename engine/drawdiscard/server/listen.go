package server

import (
	"crypto/tls"
	"fmt"
	"net"

	"github.com/dptrain/dptrain/internal/host/loopback"
)

// newTLSConfig accepts TLS 1.3 only. Older versions, to which an attacker could downgrade a
// connection, are refused.
func newTLSConfig() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS13} }

// Listen opens the address. An address that other machines reach needs both TLS, so that tokens and
// models cannot be read on the way, and tokens, so that only their owners can return models.
func Listen(address string, hasTLS, hasTokens bool) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w; write HOST:PORT, such as 127.0.0.1:8080", address, err)
	}
	if !loopback.IsHost(host) && (!hasTLS || !hasTokens) {
		return nil, fmt.Errorf("address %s is reachable by other machines: give a TLS certificate and bearer tokens, or listen on 127.0.0.1", address)
	}
	return net.Listen("tcp", address)
}
