package govern

// Match is an entity that was found in a text: what it is, and the bytes from
// Start up to End.
type Match struct {
	Entity     string
	Start, End int
}

// Scanner looks for some entities. It is safe for concurrent use.
type Scanner interface {
	// Scan appends the entities in text to dst, from left to right and without
	// overlap. name is that of the member whose value text is; it may be empty.
	Scan(dst []Match, name string, text []byte) []Match
}

// Detectors find what policies name. They are safe for concurrent use.
type Detectors interface {
	// Scanner returns a scanner for some entities, or for all that are known when
	// none are named. Entities that nobody knows are never found.
	Scanner(entities []string) Scanner
	// Entity returns the name under which an entity is found; ok is false for one
	// that never is.
	Entity(name string) (entity string, ok bool)
	// Injection returns how likely a text is to try to take over an agent, from 0
	// to 1.
	Injection(text []byte) float64
	// Redact appends text to dst with the matches, which are from left to right
	// and do not overlap, taken out by a redaction strategy of the control plane.
	// key is that of the strategy hash.
	Redact(dst, text []byte, matches []Match, strategy string, key []byte) []byte
}
