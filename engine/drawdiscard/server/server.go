package server

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/internal/host/loopback"
)

const (
	// TicketHeader is the header of a draw's response and of a return.
	TicketHeader = "Dptrain-Ticket"
	// RateHeader is the header of a draw's response with the learning rate of the step.
	RateHeader = "Dptrain-Learning-Rate"
)

// Options are the settings of a server. The zero value of a limit selects its default.
type Options struct {
	Folder         string        // of the models' files; "": models are in memory only
	Tokens         []string      // accepted bearer tokens; none: no token is needed
	TicketLifetime time.Duration // between draw and return
	Timeout        time.Duration // for a request to arrive, and for a response to leave
	MaxRate        int           // requests a second, without /healthz
	MaxInFlight    int           // requests at once
	MaxConnections int           // connections at once
	// MaxShare is the largest share of requests at once, requests a second and connections that one
	// address or one token has. An IPv6 address shares it with its /64 network.
	MaxShare float64
	Hosts    []string // names besides those of this machine in the Host header, if only this machine reaches the server
}

// The default limits.
const (
	DefaultTicketLifetime = 10 * time.Minute
	DefaultTimeout        = 30 * time.Second
	DefaultMaxRate        = 50_000
	DefaultMaxInFlight    = 1024
	DefaultMaxConnections = 4096
	DefaultMaxShare       = 0.25
)

// Server serves models over HTTP. Its memory is bounded by the models, the connections and the
// requests in flight.
type Server struct {
	options  Options
	models   map[string]*Model
	names    []string
	tokens   tokenSet
	rate     *rateLimit
	address  *shares[netip.Prefix]
	token    *shares[int]
	local    atomic.Bool // only this machine reaches the listener: the Host header is checked
	inFlight atomic.Int64
	grace    time.Duration             // of bodies that are slow
	memory   atomic.Int64              // bytes of the files of requests in flight
	rejects  map[string]*atomic.Uint64 // by problem, of requests without a model
	buffers  sync.Pool
	http     *http.Server
	periodic sync.WaitGroup // what happens every second
	stopTime context.CancelFunc
	errors   atomic.Uint64 // failed syncs
	page     cached[string]
}

//go:embed openapi.json
var openAPI []byte

// New opens the models. Close releases them.
func New(o Options, descriptions []Description) (_ *Server, err error) {
	for _, limit := range []*int{&o.MaxRate, &o.MaxInFlight, &o.MaxConnections} {
		if *limit < 0 {
			return nil, fmt.Errorf("a limit of %d; it must be at least 1", *limit)
		}
	}
	o.TicketLifetime = orDefault(o.TicketLifetime, DefaultTicketLifetime)
	o.Timeout = orDefault(o.Timeout, DefaultTimeout)
	o.MaxRate = min(orDefault(o.MaxRate, DefaultMaxRate), 1e9)
	o.MaxInFlight = orDefault(o.MaxInFlight, DefaultMaxInFlight)
	o.MaxConnections = orDefault(o.MaxConnections, DefaultMaxConnections)
	o.MaxShare = orDefault(o.MaxShare, DefaultMaxShare)
	if !(o.MaxShare > 0 && o.MaxShare <= 1) {
		return nil, fmt.Errorf("a share of %v; it must be above 0 and at most 1", o.MaxShare)
	}
	if o.Timeout < 0 || o.TicketLifetime < 0 {
		return nil, errors.New("a time limit is negative; it must be above 0")
	}
	if len(descriptions) == 0 {
		return nil, errors.New("there is no model to serve")
	}
	s := &Server{
		options: o, models: map[string]*Model{}, tokens: newTokenSet(o.Tokens), rate: newRateLimit(o.MaxRate),
		address: newShares[netip.Prefix](o.share(o.MaxInFlight), o.share(o.MaxRate)),
		token:   newShares[int](o.share(o.MaxInFlight), o.share(o.MaxRate)),
		grace:   min(bodyGrace, o.Timeout), rejects: newRejects(), buffers: sync.Pool{New: func() any { return new([]byte) }},
	}
	defer func() {
		if err != nil {
			s.closeModels()
		}
	}()
	for _, d := range descriptions {
		if s.models[d.Name] != nil {
			return nil, fmt.Errorf("two models have the name %s", d.Name)
		}
		m, err := openModel(d, modelOptions{o.Folder, o.TicketLifetime})
		if err != nil {
			return nil, err
		}
		s.models[d.Name] = m
		s.names = append(s.names, d.Name)
	}
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: min(o.Timeout, 10*time.Second),
		ReadTimeout:       o.Timeout,
		WriteTimeout:      2 * o.Timeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    8 << 10,
		ConnState:         observeState,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, tracked(c))
		},
		ErrorLog: log.New(io.Discard, "", 0), // it would repeat what clients send
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stopTime = cancel
	s.periodic.Go(func() { s.syncModels(ctx) })
	s.periodic.Go(func() { s.observeModels(ctx) })
	return s, nil
}

// connectionKey is the key of a request's connection in its context.
type connectionKey struct{}

// share is the part of a limit that one client has.
func (o Options) share(limit int) int { return max(1, int(o.MaxShare*float64(limit))) }

func orDefault[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// Notes returns what the operator should know about the state that the models were found in.
func (s *Server) Notes() (notes []string) {
	for _, name := range s.names {
		if n := s.models[name].note; n != "" {
			notes = append(notes, n)
		}
	}
	return notes
}

// Serve answers requests on a listener until Shutdown, and returns nil then. CertFile and keyFile
// name the files of a TLS certificate and its key; without them it serves plain HTTP.
func (s *Server) Serve(l net.Listener, certFile, keyFile string) error {
	s.local.Store(loopback.IsListener(l))
	l = newConnections(l, s.options.MaxConnections, s.options.share(s.options.MaxConnections))
	serve := func() error { return s.http.Serve(l) }
	if certFile != "" {
		s.http.TLSConfig = newTLSConfig()
		serve = func() error { return s.http.ServeTLS(l, certFile, keyFile) }
	}
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown stops new connections, waits for the requests in flight until the context ends, writes
// snapshots and releases the models.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.stopTime()
	s.periodic.Wait()
	return errors.Join(err, s.closeModels())
}

func (s *Server) closeModels() (err error) {
	for _, m := range s.models {
		err = errors.Join(err, m.close())
	}
	return err
}

// syncModels syncs the journals every second.
func (s *Server) syncModels(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			for _, m := range s.models {
				if m.sync() != nil {
					s.errors.Add(1)
				}
			}
		}
	}
}

// ServeHTTP answers a request. No limit applies to /healthz, which needs no token.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		limitUnreadBody(w)
	}
	if r.URL.Path == "/healthz" {
		s.get(w, r, func() { writeJSON(w, map[string]string{"status": "ok"}) })
		return
	}
	if c, _ := r.Context().Value(connectionKey{}).(*connection); c != nil && c.reserved {
		w.Header().Set("Connection", "close")
		s.reject(w, nil, &problemBusy, "the server has no place for another connection; try again later")
		return
	}
	if s.local.Load() && !s.isNamed(r.Host) {
		s.reject(w, nil, &problemMisdirected, "the server listens on this machine only: use 127.0.0.1 or localhost, or name the host when the server starts")
		return
	}
	defer s.inFlight.Add(-1)
	if s.inFlight.Add(1) > int64(s.options.MaxInFlight) {
		s.reject(w, nil, &problemBusy, "try again later")
		return
	}
	address := addressOf(r.RemoteAddr)
	if p := s.address.enter(address); p != nil {
		s.reject(w, nil, p, "this address has its share of the server; try again later")
		return
	}
	defer s.address.leave(address)
	if len(s.tokens) > 0 {
		n := s.tokens.find(r.Header.Get("Authorization"))
		if n < 0 {
			s.reject(w, nil, &problemUnauthorized, "send a valid token in the header Authorization: Bearer TOKEN")
			return
		}
		if p := s.token.enter(n); p != nil {
			s.reject(w, nil, p, "this token has its share of the server; try again later")
			return
		}
		defer s.token.leave(n)
	}
	s.route(w, r)
}

// isNamed reports whether the header Host names a server that only this machine reaches.
func (s *Server) isNamed(header string) bool {
	host := header
	if h, _, err := net.SplitHostPort(header); err == nil {
		host = h
	}
	return loopback.NamesHost(header) || slices.ContainsFunc(s.options.Hosts,
		func(name string) bool { return strings.EqualFold(name, host) })
}

// route answers a request within the limits.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/":
		s.get(w, r, func() { s.writePage(w) })
	case "/metrics":
		s.get(w, r, func() { s.writeMetrics(w) })
	case "/openapi.json":
		s.get(w, r, func() {
			w.Header().Set("Content-Type", "application/json")
			w.Write(openAPI)
		})
	case "/v1/models":
		s.get(w, r, func() { s.list(w) })
	default:
		s.serveModel(w, r)
	}
}

// get calls answer if the method is GET or HEAD and the rate limit admits the request. Requests of
// one model were counted before.
func (s *Server) get(w http.ResponseWriter, r *http.Request, answer func()) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		s.reject(w, nil, &problemMethod, "use GET")
		return
	}
	if r.URL.Path == "/healthz" || strings.HasPrefix(r.URL.Path, "/v1/models/") || s.admit(w, nil) {
		answer()
	}
}

// serveModel answers requests below /v1/models/. A name is looked up in the table of models, and
// no part of a path reaches the file system.
func (s *Server) serveModel(w http.ResponseWriter, r *http.Request) {
	rest, below := strings.CutPrefix(r.URL.Path, "/v1/models/")
	name, action, hasAction := strings.Cut(rest, "/")
	m := s.models[name]
	if !below || m == nil || hasAction && action != "draw" && action != "return" && action != "predict" {
		s.reject(w, nil, &problemNotFound, "GET /v1/models lists the models; /openapi.json describes the endpoints")
		return
	}
	if !s.admit(w, m) {
		return
	}
	if hasAction && r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		s.reject(w, m, &problemMethod, "use POST")
		return
	}
	size := int64(m.codec.Size())
	defer s.memory.Add(-size)
	if s.memory.Add(size) > max(maxFileMemory, size) {
		s.reject(w, m, &problemBusy, "too many models are on their way; try again later")
		return
	}
	if !hasAction {
		s.get(w, r, func() { s.average(w, m) })
		return
	}
	switch action {
	case "draw":
		s.draw(w, m)
	case "predict":
		s.predict(w, r, m)
	default:
		s.accept(w, r, m)
	}
}

// maxFileMemory bounds the memory of the files of all requests in flight. One request is always
// admitted.
const maxFileMemory = 1 << 30

// admit counts a request in the rate limit.
func (s *Server) admit(w http.ResponseWriter, m *Model) bool {
	ok := s.rate.admit()
	if !ok {
		s.reject(w, m, &problemRate, "the server admits "+strconv.Itoa(s.options.MaxRate)+" requests a second")
	}
	return ok
}

func (s *Server) draw(w http.ResponseWriter, m *Model) {
	buffer := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buffer)
	file, ticket, rate := m.draw((*buffer)[:0], time.Now())
	*buffer = file
	w.Header()[TicketHeader] = []string{ticket}
	w.Header()[RateHeader] = []string{strconv.FormatFloat(rate, 'g', -1, 64)}
	s.writeFile(w, file)
}

// writeFile sends a safetensors file, which no cache may keep, to a client that reads it at the least
// rate.
func (s *Server) writeFile(w http.ResponseWriter, file []byte) {
	h := w.Header()
	h["Content-Type"] = []string{"application/octet-stream"}
	h["Content-Length"] = []string{strconv.Itoa(len(file))}
	h["Cache-Control"] = []string{"no-store"}
	deadline := time.Now().Add(min(s.grace+transferTime(len(file)), 2*s.options.Timeout))
	http.NewResponseController(w).SetWriteDeadline(deadline) // an error: the request comes from no connection
	w.Write(file)
}

func (s *Server) average(w http.ResponseWriter, m *Model) {
	a := m.average()
	w.Header().Set("Dptrain-Updates", strconv.FormatUint(a.updates, 10))
	s.writeFile(w, a.file)
}

// accept answers a return. The ticket is claimed before the body is read, so a ticket pays for one
// request at a time. A return that is refused spends its ticket. One that did not arrive, or that
// could not be stored, leaves it valid: the client sends the same bytes again.
func (s *Server) accept(w http.ResponseWriter, r *http.Request, m *Model) {
	t, err := m.tickets.parse(r.Header.Get(TicketHeader), time.Now(), m.updates.Load())
	if err == nil {
		err = m.tickets.claim(t)
	}
	if err != nil {
		s.reject(w, m, ticketProblem(err), err.Error())
		return
	}
	next := ticketRefused // also if a panic ends the request
	defer func() { m.tickets.settle(t, next) }()
	p, err := s.receive(w, r, m, t)
	switch p {
	case nil:
		next = ticketSpent
	case &problemTimeout, &problemMalformedRequest, &problemStorage:
		next = ticketFree
	}
	if p != nil {
		s.reject(w, m, p, err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// receive reads the body of a return and puts its weights into the model.
func (s *Server) receive(w http.ResponseWriter, r *http.Request, m *Model, t ticket) (*problem, error) {
	buffer := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buffer)
	body, err := s.readBody((*buffer)[:0], w, r, m.codec)
	*buffer = body
	if err != nil {
		return bodyProblem(err), fmt.Errorf("the body of a return is a safetensors file of at most %d bytes, and must arrive in time", m.codec.MaxSize())
	}
	weights, err := m.codec.Decode(body)
	if err != nil {
		return decodeProblem(err), err
	}
	return m.accept(t, weights, time.Now())
}

func ticketProblem(err error) *problem {
	switch {
	case errors.Is(err, errTicketMissing):
		return &problemTicketMissing
	case errors.Is(err, errTicketExpired):
		return &problemTicketExpired
	case errors.Is(err, errTicketUsed):
		return &problemTicketUsed
	case errors.Is(err, errTicketRefused):
		return &problemTicketRefused
	case errors.Is(err, errTicketInUse):
		return &problemTicketInUse
	}
	return &problemTicketInvalid
}

func bodyProblem(err error) *problem {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &problemTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &problemTimeout
	}
	return &problemMalformedRequest
}

func decodeProblem(err error) *problem {
	switch {
	case errors.Is(err, drawdiscard.ErrShape):
		return &problemShape
	case errors.Is(err, drawdiscard.ErrNotFinite):
		return &problemNotFinite
	}
	return &problemMalformed
}

// list writes the models.
func (s *Server) list(w http.ResponseWriter) {
	all := make([]status, len(s.names))
	for i, name := range s.names {
		all[i] = s.models[name].status()
	}
	writeJSON(w, map[string]any{"version": 1, "models": all})
}

func writeJSON(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil { // a spread that is not finite cannot occur: returned weights are finite, and squares fit a float64
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(text, '\n'))
}

// reject counts and sends a problem.
func (s *Server) reject(w http.ResponseWriter, m *Model, p *problem, detail string) {
	if m == nil {
		s.rejects[p.name].Add(1)
	} else {
		m.rejects[p.name].Add(1)
	}
	p.write(w, detail)
}

// newRejects returns a counter for each problem.
func newRejects() map[string]*atomic.Uint64 {
	all := make(map[string]*atomic.Uint64, len(problems))
	for _, p := range problems {
		all[p.name] = new(atomic.Uint64)
	}
	return all
}
