package guardrail

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"svc/gateway/base/retry"
)

// Set holds the endpoints of one configuration by name. It is immutable: a reload creates
// another Set, whose breakers are all closed.
type Set struct {
	endpoints map[string]*Endpoint
}

// New creates the endpoints of a section that [Config.Validate] has accepted. It reads
// the files of their TLS sections; no request is sent.
func New(configs []Config, log *slog.Logger, now func() time.Time) (*Set, error) {
	s := &Set{endpoints: make(map[string]*Endpoint, len(configs))}
	for _, c := range configs {
		transport, err := newTransport(&c)
		if err != nil {
			return nil, fmt.Errorf("guardrail %q: %w", c.Name, err)
		}
		header := make(http.Header, len(c.Headers)+2)
		header.Set("User-Agent", userAgent)
		for name, value := range c.Headers {
			header.Set(name, value)
		}
		header.Set("Content-Type", contentType)
		s.endpoints[c.Name] = &Endpoint{
			cfg: c, header: header, transport: transport, log: log, now: now,
			breaker: retry.New(c.Breaker),
		}
		if c.TLS.Enabled && c.TLS.SkipVerify {
			log.Warn("GUARDRAIL CERTIFICATES ARE NOT VERIFIED: an attacker between gateway and guardrail can read every message and decide on it",
				"guardrail", c.Name, "fix", "set tls.ca_file and remove tls.skip_verify")
		}
	}
	return s, nil
}

// Get returns the endpoint with a name, nil when there is none.
func (s *Set) Get(name string) *Endpoint { return s.endpoints[name] }

// Len returns the number of endpoints.
func (s *Set) Len() int { return len(s.endpoints) }

// Close closes idle connections. Calls in flight continue.
func (s *Set) Close() {
	for _, e := range s.endpoints {
		e.transport.CloseIdleConnections()
	}
}
