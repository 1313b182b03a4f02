// Package detectors implements the detectors of govern with package detect.
package detectors

import (
	"sync"

	"svc/gateway/detect"
	"svc/gateway/govern"
)

// Built implements govern.Detectors with the detectors of the binary.
type Built struct{}

// Entity implements govern.Detectors.
func (Built) Entity(name string) (string, bool) {
	e, ok := detect.ParseEntity(name)
	return string(e), ok
}

// Scanner implements govern.Detectors.
func (Built) Scanner(entities []string) govern.Scanner {
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

// Injection implements govern.Detectors.
func (Built) Injection(text []byte) float64 {
	score, _ := detect.ScoreInjection(text)
	return score
}

// Redact implements govern.Detectors.
func (Built) Redact(dst, text []byte, matches []govern.Match, strategy string, key []byte) []byte {
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

// Scan implements govern.Scanner.
func (s scanner) Scan(dst []govern.Match, name string, text []byte) []govern.Match {
	room := matchPool.Get().(*[]detect.Match)
	*room = s.ScanValue((*room)[:0], name, text)
	for _, m := range *room {
		dst = append(dst, govern.Match{Entity: string(m.Entity), Start: m.Start, End: m.End})
	}
	matchPool.Put(room)
	return dst
}

// noopScanner finds nothing.
type noopScanner struct{}

// Scan implements govern.Scanner.
func (noopScanner) Scan(dst []govern.Match, _ string, _ []byte) []govern.Match { return dst }
