package mcp

import (
	"strings"
	"unicode/utf8"
)

// Limits of a client's name and version, in bytes.
const (
	MaxClientName    = 64
	MaxClientVersion = 32
)

// ClientInfo is the self-declared name and version of a client program. Neither is
// verified.
type ClientInfo struct{ Name, Version string }

// ClientOf returns the client that a message names: clientInfo of an initialize, or of
// _meta in the revisions without sessions. Names and versions are truncated to their
// limits and do not share memory with the message.
func ClientOf(m *Message) ClientInfo {
	var info Span
	switch {
	case m.Kind != Request && m.Kind != Notification:
		return ClientInfo{}
	case m.Method == MethodInitialize:
		info = Find(m.Body, m.Spans.Params, "clientInfo")
	case m.Spans.Meta.Present():
		info = Find(m.Body, m.Spans.Meta, MetaClientInfo)
	}
	if !info.Present() {
		return ClientInfo{}
	}
	name, _ := stringAt(m.Body, Find(m.Body, info, "name"))
	version, _ := stringAt(m.Body, Find(m.Body, info, "version"))
	return ClientInfo{truncate(name, MaxClientName), truncate(version, MaxClientVersion)}.clone()
}

// DeclaresCapabilities reports whether a request says what its client is capable of, as
// every request of the stateless dialect does: an object in _meta.
func DeclaresCapabilities(m *Message) bool {
	at := Find(m.Body, m.Spans.Meta, MetaClientCapabilities)
	return at.Present() && m.Body[at.Start] == '{'
}

// clone copies both strings with one allocation.
func (c ClientInfo) clone() ClientInfo {
	both := c.Name + c.Version
	if c.Name == "" || c.Version == "" {
		both = strings.Clone(both) // a concatenation with an empty string does not copy
	}
	return ClientInfo{both[:len(c.Name)], both[len(c.Name):]}
}

// truncate returns the first whole characters of a text, at most max bytes.
func truncate(text string, max int) string {
	if len(text) <= max {
		return text
	}
	for max > 0 && !utf8.RuneStart(text[max]) {
		max--
	}
	return text[:max]
}
