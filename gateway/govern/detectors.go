package govern

// Match is an entity that was found in a text: its name, and the range of bytes from
// Start up to End.
type Match struct {
	Entity     string
	Start, End int
}

// Scanner finds some entities. It is safe for concurrent use.
type Scanner interface {
	// Scan appends the entities in text to dst, from left to right and without overlap.
	// name is the name of the member whose value is text; it may be empty.
	Scan(dst []Match, name string, text []byte) []Match
}

// Detectors find the entities of policies. They are safe for concurrent use.
type Detectors interface {
	// Scanner returns a scanner for the given entities, or for all known entities when
	// none are given. Unknown entities are never found.
	Scanner(entities []string) Scanner
	// Entity returns the canonical name of an entity; ok is false for an unknown one.
	Entity(name string) (entity string, ok bool)
	// Injection returns the score of a text for prompt injection, from 0 to 1.
	Injection(text []byte) float64
	// Redact appends text to dst and redacts the matches, which are from left to right
	// and do not overlap, by a redaction strategy of the control plane. key is the key of
	// the strategy hash.
	Redact(dst, text []byte, matches []Match, strategy string, key []byte) []byte
}
