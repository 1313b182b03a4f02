package plane

import (
	"sync"

	"svc/gateway/policy/detect"
)

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

// Built implements Detectors with the detectors of the binary.
type Built struct{}

// Entity implements Detectors.
func (Built) Entity(name string) (string, bool) {
	e, ok := detect.ParseEntity(name)
	return string(e), ok
}

// Scanner implements Detectors.
func (Built) Scanner(entities []string) Scanner {
	var known []detect.Entity
	for _, name := range entities {
		if e, ok := detect.ParseEntity(name); ok {
			known = append(known, e)
		}
	}
	if len(entities) > 0 && len(known) == 0 {
		return noopScanner{} // no entities would mean all
	}
	return scanner{detect.NewScanner(known...)}
}

// Injection implements Detectors.
func (Built) Injection(text []byte) float64 {
	score, _ := detect.ScoreInjection(text)
	return score
}

// Redact implements Detectors.
func (Built) Redact(dst, text []byte, matches []Match, strategy string, key []byte) []byte {
	list := make([]detect.Match, len(matches))
	for i, m := range matches {
		list[i] = detect.Match{Entity: detect.Entity(m.Entity), Start: m.Start, End: m.End}
	}
	return detect.Redact(dst, text, list, detect.Strategy(strategy), key)
}

// scanner is a detect.Scanner.
type scanner struct{ *detect.Scanner }

// matchPool holds reusable slices for matches before their conversion.
var matchPool = sync.Pool{New: func() any { return new([]detect.Match) }}

// Scan implements Scanner.
func (s scanner) Scan(dst []Match, name string, text []byte) []Match {
	room := matchPool.Get().(*[]detect.Match)
	*room = s.ScanValue((*room)[:0], name, text)
	for _, m := range *room {
		dst = append(dst, Match{Entity: string(m.Entity), Start: m.Start, End: m.End})
	}
	matchPool.Put(room)
	return dst
}

// noopScanner finds nothing.
type noopScanner struct{}

// Scan implements Scanner.
func (noopScanner) Scan(dst []Match, _ string, _ []byte) []Match { return dst }
