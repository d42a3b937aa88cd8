package server

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// reservedConnections are the places for connections beyond the limit, on which only /healthz is
// answered.
const reservedConnections = 16

// connections is a listener that keeps the number of its connections within limits. Where a limit is
// reached, a new connection takes the place of the one that waits the longest for a request: so
// connections that send nothing, or send slowly, stop no one.
type connections struct {
	net.Listener
	most       int // at once
	perAddress int // at once from one address

	mu        sync.Mutex
	count     int
	waiting   list.List // connections without a request, the longest first
	addresses map[netip.Prefix]*addressConnections
}

type addressConnections struct {
	count   int
	waiting list.List
}

// connection is a connection in the table.
type connection struct {
	net.Conn
	table    *connections
	address  netip.Prefix
	reserved bool // only /healthz is answered

	// Under the table's lock.
	closed         bool
	placeInTable   *list.Element // nil while a request is answered
	placeInAddress *list.Element
}

func newConnections(l net.Listener, most, perAddress int) *connections {
	return &connections{Listener: l, most: most, perAddress: perAddress, addresses: map[netip.Prefix]*addressConnections{}}
}

// Accept waits for a connection that has a place.
func (t *connections) Accept() (net.Conn, error) {
	for {
		raw, err := t.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &connection{Conn: raw, table: t, address: addressOf(raw.RemoteAddr().String())}
		ended, ok := t.add(c)
		if ended != nil {
			ended.Conn.Close()
		}
		if ok {
			return c, nil
		}
		raw.Close()
	}
}

// add adds a connection, and removes the one whose place it takes.
func (t *connections) add(c *connection) (ended *connection, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.addresses[c.address]
	if a == nil {
		a = &addressConnections{}
		t.addresses[c.address] = a
	}
	switch {
	case a.count >= t.perAddress:
		ended = longest(&a.waiting)
	case t.count >= t.most:
		ended = longest(&t.waiting)
	}
	if ended != nil {
		t.remove(ended)
	}
	if t.count >= t.most+reservedConnections || a.count >= t.perAddress+reservedConnections {
		return ended, false
	}
	c.reserved = t.count >= t.most || a.count >= t.perAddress
	t.addresses[c.address] = a // removing the last connection of an address forgets it
	t.count++
	a.count++
	t.wait(c)
	return ended, true
}

func longest(waiting *list.List) *connection {
	if first := waiting.Front(); first != nil {
		return first.Value.(*connection)
	}
	return nil
}

// wait puts a connection at the end of those that wait for a request.
func (t *connections) wait(c *connection) {
	c.placeInTable = t.waiting.PushBack(c)
	c.placeInAddress = t.addresses[c.address].waiting.PushBack(c)
}

// stopWaiting removes a connection from those that wait for a request.
func (t *connections) stopWaiting(c *connection) {
	if c.placeInTable != nil {
		t.waiting.Remove(c.placeInTable)
		t.addresses[c.address].waiting.Remove(c.placeInAddress)
		c.placeInTable, c.placeInAddress = nil, nil
	}
}

func (t *connections) remove(c *connection) {
	if c.closed {
		return
	}
	c.closed = true
	t.stopWaiting(c)
	t.count--
	a := t.addresses[c.address]
	if a.count--; a.count == 0 {
		delete(t.addresses, c.address)
	}
}

// Close closes the connection and frees its place.
func (c *connection) Close() error {
	c.table.mu.Lock()
	c.table.remove(c)
	c.table.mu.Unlock()
	return c.Conn.Close()
}

// observeState follows the state of a connection: package http calls it when the header of a request
// has arrived, and when its answer has left.
func observeState(conn net.Conn, state http.ConnState) {
	c := tracked(conn)
	if c == nil {
		return
	}
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	switch {
	case c.closed:
	case state == http.StateActive:
		c.table.stopWaiting(c)
	case state == http.StateIdle && c.placeInTable == nil:
		c.table.wait(c)
	}
}

// tracked returns the connection of the table below a connection of package http.
func tracked(conn net.Conn) *connection {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, _ := conn.(*connection)
	return c
}

// addressOf is the address that shares a limit: an IPv4 address, or the /64 network of an IPv6 address,
// which one machine can have for itself.
func addressOf(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	ip := at.Addr().Unmap().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // no error: the number of bits fits the address
	return p
}
