package api

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// UnnamedAgent is the agent of traces whose agent name has no visible character or
// means all agents, and of spans that have neither gen_ai.agent.name nor
// service.name. SDKs send this name for a service without a name.
const UnnamedAgent = "unknown_service"

// NormalizeName returns the form in which a name is stored and compared: Unicode
// NFC, without variation selectors and without white space around it. So spellings
// of a name that look the same are the same bytes.
func NormalizeName(s string) string {
	s = strings.TrimSpace(s)
	if plain(s) || !utf8.ValidString(s) {
		return s
	}
	return strings.TrimSpace(norm.NFC.String(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Variation_Selector, r) {
			return -1
		}
		return r
	}, s)))
}

// NameProblem returns the reason why a normalized name is not allowed, or "".
func NameProblem(name string) string {
	switch {
	case plain(name) && len(name) <= MaxName && name != "":
		return ""
	case !utf8.ValidString(name):
		return "must be valid UTF-8"
	case name == "":
		return required
	case utf8.RuneCountInString(name) > MaxName:
		return fmt.Sprintf("must have at most %d characters", MaxName)
	}
	for _, r := range name {
		switch {
		case unicode.IsControl(r):
			return fmt.Sprintf("must not contain control characters, and contains %U", r)
		case invisible(r):
			return fmt.Sprintf("must not contain invisible characters, and contains %U", r)
		}
	}
	return ""
}

// invisible reports whether r has no visible form of its own: control and format
// characters (zero-width, byte order mark, direction), line and paragraph
// separators, fillers.
func invisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// name checks a required name of a resource, and replaces it by its normalized form,
// which is stored.
func (c *check) name(field string, s *string) {
	*s = NormalizeName(*s)
	if problem := NameProblem(*s); problem != "" {
		c.add(field, "%s", problem)
	}
}

// The prefixes of ids, by kind of resource. A prefix is followed by 26 characters.
const (
	teamID    = "team_"
	agentID   = "agt_"
	policyID  = "pol_"
	budgetID  = "bud_"
	slaID     = "sla_"
	keyID     = "key_"
	webhookID = "whk_"
)

// idCharacters are the characters of an id after its prefix.
const idCharacters = "0123456789abcdefghjkmnpqrstvwxyz"

// HasIDForm reports whether a text has the exact form of an id with a prefix.
func HasIDForm(s, prefix string) bool {
	rest, ok := strings.CutPrefix(s, prefix)
	return ok && len(rest) == 26 && strings.Trim(rest, idCharacters) == ""
}

// newName is name for a resource whose ids have a prefix. Commands accept names and
// ids, so a name in the form of an id could refer to another resource.
func (c *check) newName(field string, s *string, prefix string) {
	c.name(field, s)
	if HasIDForm(*s, prefix) {
		c.add(field, "must not have the form of an id")
	}
}

// optionalName is newName for a name that is not nil.
func (c *check) optionalName(field string, s *string, prefix string) {
	if s != nil {
		c.newName(field, s, prefix)
	}
}

// producerName checks the agent name that a producer of traces sends. Characters
// that CleanAgentName removes are not an error.
func (c *check) producerName(field, s string) {
	switch {
	case plain(s) && len(s) <= MaxName:
	case !utf8.ValidString(s):
		c.add(field, "must be valid UTF-8")
	case utf8.RuneCountInString(s) > MaxName:
		c.add(field, "must have at most %d characters", MaxName)
	}
}

// Bounds of CleanAgentName: combining marks on one character, and bytes that a store
// accepts.
const (
	maxCleanMarks = 8
	maxCleanBytes = 512
)

// CleanAgentName returns the name under which the traces of a producer with this
// name are stored: the normalized name, or the most similar name that is allowed.
// The names of producers come from tokens and libraries, so no name makes a batch
// invalid.
func CleanAgentName(s string) string {
	name := NormalizeName(s)
	if NameProblem(name) != "" || len(name) > maxCleanBytes {
		name = cleanName(name)
	}
	if name == "" || name == AllAgents {
		return UnnamedAgent
	}
	return name
}

// cleanName removes the characters that a name cannot have from s.
func cleanName(s string) string {
	visible := func(r rune) rune {
		if invisible(r) {
			return -1
		}
		return r
	}
	// Combining marks are counted in the decomposed text. NFC inserts invisible
	// joiners into texts with more than 30 marks in a row.
	marks := 0
	s = strings.Map(func(r rune) rune {
		switch {
		case invisible(r):
			return -1
		case !unicode.Is(unicode.M, r):
			marks = 0
		case marks >= maxCleanMarks:
			return -1
		default:
			marks++
		}
		return r
	}, norm.NFD.String(strings.Map(visible, strings.ToValidUTF8(s, "\uFFFD"))))
	s = strings.TrimSpace(norm.NFC.String(s))
	n := 0
	for i, r := range s {
		if n++; n > MaxName || i+utf8.RuneLen(r) > maxCleanBytes {
			return strings.TrimSpace(s[:i])
		}
	}
	return s
}
