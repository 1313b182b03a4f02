// Package detectors gives the policies of the control plane the detectors that are
// in the binary.
package detectors

import (
	"sync"

	"svc/gateway/detect"
	"svc/gateway/govern"
)

// Built are those in the binary, as policies of the control plane use
// them.
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
		return blind{} // none given would mean all
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

// rooms are where findings are put before they are handed on.
var rooms = sync.Pool{New: func() any { return new([]detect.Match) }}

// Scan implements govern.Scanner.
func (s scanner) Scan(dst []govern.Match, name string, text []byte) []govern.Match {
	room := rooms.Get().(*[]detect.Match)
	*room = s.ScanValue((*room)[:0], name, text)
	for _, m := range *room {
		dst = append(dst, govern.Match{Entity: string(m.Entity), Start: m.Start, End: m.End})
	}
	rooms.Put(room)
	return dst
}

// blind finds nothing.
type blind struct{}

// Scan implements govern.Scanner.
func (blind) Scan(dst []govern.Match, _ string, _ []byte) []govern.Match { return dst }
