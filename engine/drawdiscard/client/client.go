package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/internal/host/loopback"
)

// Model is what a server publishes about a model.
type Model struct {
	Name string `json:"name"`
	drawdiscard.Spec
	Instances int                  `json:"instances"`
	Settings  drawdiscard.Settings `json:"settings"`
	Weights   int                  `json:"weights"`
	Updates   uint64               `json:"updates"`
}

// Client talks to a server. It follows no redirects, accepts TLS 1.3 only, and sends tokens and
// models over plain HTTP only to this machine. It is safe for concurrent use.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// Options are the settings of a client.
type Options struct {
	Token   string         // bearer token; may be empty
	Roots   *x509.CertPool // trusted certificates; nil: the system's
	Timeout time.Duration  // of a request; 0: one minute
}

// New returns a client for the server at a URL such as https://models.example.org.
func New(server string, o Options) (*Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("server %q: write http://HOST:PORT or https://HOST", server)
	}
	if u.Scheme == "http" && !loopback.IsHost(u.Hostname()) {
		return nil, fmt.Errorf("server %s: plain HTTP is allowed only to this machine; use https", server)
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	return &Client{
		base: strings.TrimSuffix(u.String(), "/"), token: o.Token,
		http: &http.Client{
			Timeout: o.Timeout,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS13},
				MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Problem is an error response of a server (RFC 9457).
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func (p *Problem) Error() string {
	return fmt.Sprintf("the server answered %d: %s", p.Status, printable(p.Title+": "+p.Detail))
}

// printable keeps a server from writing control characters or long texts to a terminal.
func printable(text string) string {
	const most = 300
	out := strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, text)
	return out[:min(len(out), most)]
}

// exchange sends a request and reads a response of at most limit bytes.
func (c *Client) exchange(ctx context.Context, method, path, ticket string, body []byte, limit int) (http.Header, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if ticket != "" {
		request.Header.Set(ticketHeader, ticket)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, int64(limit)+1))
	switch {
	case err != nil:
		return nil, nil, err
	case len(text) > limit:
		return nil, nil, fmt.Errorf("the server answered with more than %d bytes", limit)
	case response.StatusCode < 200 || response.StatusCode > 299:
		p := &Problem{}
		if json.Unmarshal(text, p) != nil || p.Title == "" {
			p.Title = "no problem description"
		}
		p.Status = response.StatusCode
		return nil, nil, p
	}
	return response.Header, text, nil
}

const (
	ticketHeader  = "Dptrain-Ticket"
	rateHeader    = "Dptrain-Learning-Rate"
	ticketRefused = "urn:dptrain:problem:ticket-refused"
	maxListing    = 1 << 20
)

// Models lists the server's models.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	_, text, err := c.exchange(ctx, http.MethodGet, "/v1/models", "", nil, maxListing)
	if err != nil {
		return nil, err
	}
	var list struct {
		Version int
		Models  []Model
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("the server's list of models is not valid: %w", err)
	}
	if list.Version != 1 {
		return nil, fmt.Errorf("the server speaks version %d of the protocol, and this program version 1", list.Version)
	}
	return list.Models, nil
}

// FindModel returns the model of a name, or the only model for an empty name.
func (c *Client) FindModel(ctx context.Context, name string) (Model, error) {
	all, err := c.Models(ctx)
	if err != nil {
		return Model{}, err
	}
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = printable(m.Name)
	}
	switch i := slices.Index(names, name); {
	case i >= 0:
		return all[i], nil
	case name == "" && len(all) == 1:
		return all[0], nil
	case name == "":
		return Model{}, fmt.Errorf("the server has %d models; name one of %s", len(all), strings.Join(names, ", "))
	}
	return Model{}, fmt.Errorf("the server has no model %q; it has %s", name, strings.Join(names, ", "))
}

// Drawn is an instance, the ticket to return it, and the learning rate of the step; 0: that of the
// model's settings.
type Drawn struct {
	Weights []float32
	Ticket  string
	Rate    float64
}

// Draw draws an instance.
func (c *Client) Draw(ctx context.Context, model string, codec *drawdiscard.Codec) (d Drawn, err error) {
	header, file, err := c.exchange(ctx, http.MethodPost, "/v1/models/"+url.PathEscape(model)+"/draw", "", nil, codec.MaxSize())
	if err != nil {
		return d, err
	}
	if d.Ticket = header.Get(ticketHeader); d.Ticket == "" {
		return d, errors.New("the server sent no ticket")
	}
	rate := header.Get(rateHeader)
	if d.Rate, err = strconv.ParseFloat(rate, 64); err != nil {
		return d, fmt.Errorf("the server sent the learning rate %q; it must be a number", printable(rate))
	}
	d.Weights, err = codec.Decode(file)
	return d, err
}

// Return returns an instance. After a failure of the network it sends the same bytes again, which
// reveals nothing more. A ticket that was used then means that an earlier attempt arrived, and
// one that was refused that an earlier attempt was refused.
func (c *Client) Return(ctx context.Context, model, ticket string, file []byte) error {
	const attempts = 4
	var err error
	for attempt := range attempts {
		_, _, err = c.exchange(ctx, http.MethodPost, "/v1/models/"+url.PathEscape(model)+"/return", ticket, file, maxListing)
		var p *Problem
		switch {
		case err == nil:
			return nil
		case errors.As(err, &p) && p.Status == http.StatusConflict && p.Type != ticketRefused && attempt > 0:
			return nil
		case errors.As(err, &p) && p.Status != http.StatusServiceUnavailable &&
			p.Status != http.StatusTooManyRequests && p.Status != http.StatusRequestTimeout:
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(100<<(2*attempt)) * time.Millisecond):
		}
	}
	return err
}

// Average returns the averaged model.
func (c *Client) Average(ctx context.Context, model string, codec *drawdiscard.Codec) ([]float32, error) {
	_, file, err := c.exchange(ctx, http.MethodGet, "/v1/models/"+url.PathEscape(model), "", nil, codec.MaxSize())
	if err != nil {
		return nil, err
	}
	return codec.Decode(file)
}
