package guardrail

// Breakers returns, by the name of the endpoint, whether its breaker is open or
// half-open now. It is safe for concurrent use.
func (s *Set) Breakers() map[string]bool {
	open := make(map[string]bool, len(s.endpoints))
	for name, e := range s.endpoints {
		e.breaker.mu.Lock()
		open[name] = !e.breaker.until.IsZero()
		e.breaker.mu.Unlock()
	}
	return open
}
