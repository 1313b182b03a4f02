package guardrail

// Breakers returns the state of each breaker by the name of its endpoint: true when it is
// open or half-open. It is safe for concurrent use.
func (s *Set) Breakers() map[string]bool {
	open := make(map[string]bool, len(s.endpoints))
	for name, e := range s.endpoints {
		open[name] = e.BreakerOpen()
	}
	return open
}

// BreakerOpen reports whether the breaker of the endpoint is open or half-open. It is safe for
// concurrent use.
func (e *Endpoint) BreakerOpen() bool { return e.breaker.Open() }
