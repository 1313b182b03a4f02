package mcp

import "slices"

// Protocol revisions (gateway specification, Versioning).
const (
	Revision20241105 = "2024-11-05"
	Revision20250326 = "2025-03-26"
	Revision20250618 = "2025-06-18" // assumed when a request declares no revision
	Revision20251125 = "2025-11-25"
	Revision20260728 = "2026-07-28" // the revision without sessions
)

// LegacyRevisions returns the known revisions with sessions, newest first.
func LegacyRevisions() []string {
	return []string{Revision20251125, Revision20250618, Revision20250326, Revision20241105}
}

// Revisions returns all revisions that the gateway knows, the newest first.
func Revisions() []string { return append([]string{Revision20260728}, LegacyRevisions()...) }

// KnownRevision reports whether the gateway implements a revision.
func KnownRevision(version string) bool {
	switch version {
	case Revision20241105, Revision20250326, Revision20250618, Revision20251125, Revision20260728:
		return true
	}
	return false
}

// ImpossibleRevision reports whether a revision is none that the gateway could answer in: it
// is later than those it knows, or no date. An earlier date is read as the legacy dialect:
// servers of old revisions are still in use.
func ImpossibleRevision(version string) bool {
	return !KnownRevision(version) && (Modern(version) || !isDate(version))
}

// Dialect is the protocol revision of a request, resolved once.
type Dialect struct {
	// Version is the revision that was declared, empty when none was.
	Version string
	// Modern is set for the stateless dialect of 2026-07-28 and later, and unset for the
	// legacy one.
	Modern bool
}

// Declared reports whether the request declared a revision.
func (d Dialect) Declared() bool { return d.Version != "" }

// String returns the declared revision, or "legacy".
func (d Dialect) String() string {
	if d.Version == "" {
		return "legacy"
	}
	return d.Version
}

// ResolveDialect resolves the dialect of a message from its own declaration in
// params._meta and the value of the header MCP-Protocol-Version. The message takes
// precedence; if neither declares a revision the dialect is legacy. header is empty when
// there is none.
func ResolveDialect(m *Message, header string) Dialect {
	version := m.ProtocolVersion
	if version == "" {
		version = header
	}
	return Dialect{Version: version, Modern: Modern(version)}
}

// Modern reports whether a revision belongs to the stateless dialect: a date
// of 2026-07-28 or later.
func Modern(version string) bool {
	return isDate(version) && version >= Revision20260728
}

// isDate reports whether s has the shape of a date.
func isDate(s string) bool {
	if len(s) != len(Revision20260728) {
		return false
	}
	for i := 0; i < len(s); i++ {
		if i == 4 || i == 7 {
			if s[i] != '-' {
				return false
			}
		} else if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// Allowed is the list of accepted revisions (gateway specification,
// allowed_protocol_versions). A nil or empty list accepts all.
type Allowed []string

// Allows reports whether requests of this dialect are accepted. A request that declares
// no revision always is.
func (a Allowed) Allows(d Dialect) bool {
	return len(a) == 0 || !d.Declared() || slices.Contains(a, d.Version)
}

// NewestLegacy returns the newest revision of the legacy dialect in the list,
// "" when there is none.
func (a Allowed) NewestLegacy() string {
	newest := ""
	for _, v := range a {
		if isDate(v) && !Modern(v) && v > newest {
			newest = v
		}
	}
	return newest
}

// RewriteInitialize returns the body of an initialize with an allowed revision: SDKs
// request their newest revision, and without the rewrite their next request would be
// refused. The body is returned unchanged when the revision is allowed or the list has
// no legacy revision; changed reports a change.
func (a Allowed) RewriteInitialize(m *Message) (body []byte, changed bool) {
	at := m.Spans.InitializeVersion
	if m.Method != MethodInitialize || !at.Present() || len(a) == 0 || slices.Contains(a, m.InitializeVersion) {
		return m.Body, false
	}
	newest := a.NewestLegacy()
	if newest == "" {
		return m.Body, false
	}
	return Splice(nil, m.Body, Edit{at, AppendString(nil, newest)}), true
}

// FilterSupported returns the body of a server/discover response whose
// result.supportedVersions contains only allowed revisions. The body is returned
// unchanged when all are allowed; changed reports a change.
func (a Allowed) FilterSupported(m *Message) (body []byte, changed bool) {
	at := m.Spans.SupportedVersions
	if !at.Present() || len(a) == 0 || m.Body[at.Start] != '[' {
		return m.Body, false
	}
	kept := make([]string, 0, 8)
	cut := false
	for it := elements(m.Body, at); it.next(); {
		v, ok := stringAt(m.Body, it.value)
		if ok && slices.Contains(a, v) {
			kept = append(kept, v)
		} else {
			cut = true
		}
	}
	if !cut {
		return m.Body, false
	}
	return Splice(nil, m.Body, Edit{at, appendStrings(nil, kept)}), true
}
