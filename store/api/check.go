package api

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds on values from clients, in characters unless noted otherwise.
const (
	// MaxMessage bounds the message of a policy, in characters.
	MaxMessage = 512
	// MaxName bounds names, environments, model names and the like.
	MaxName = 200
	// MaxID bounds identifiers, including those that a client chooses.
	MaxID = 64
	// MaxDescription bounds free text.
	MaxDescription = 4096
	// MaxConfigYAML bounds an agent's configuration text, in bytes.
	MaxConfigYAML = 512 << 10
	// MaxEntities bounds the entities of a policy condition and of a trace.
	MaxEntities = 64
	// MaxLabels bounds the labels of a policy condition and of a trace.
	MaxLabels = 16
	// MaxLabel bounds the name of a label.
	MaxLabel = 32
	// MaxArguments bounds the condition on arguments of a policy, in bytes of its JSON.
	MaxArguments = 16 << 10
	// MaxSpans bounds the spans and the quality scores of one trace.
	MaxSpans = 64
	// MaxFired bounds the fired policies of one trace.
	MaxFired = 128
	// MaxTokens bounds a token count of one trace.
	MaxTokens = 1_000_000_000
	// MaxCostUSD bounds the cost of one trace, in US dollars.
	MaxCostUSD = 10_000
	// MaxDurationMs bounds a duration: thirty days, in milliseconds.
	MaxDurationMs = 30 * 24 * 3600 * 1000
	// MaxLimitUSD bounds a budget's limit, in US dollars.
	MaxLimitUSD = 1_000_000_000
)

const required = "is required"

// check collects the errors of a body. The zero value is ready to use and allocates
// nothing until the first error.
type check struct {
	prefix string
	found  map[string]string
}

func (c *check) details() map[string]string { return c.found }

// add records an error of a field, unless the field has one already.
func (c *check) add(field, format string, args ...any) {
	if c.found == nil {
		c.found = make(map[string]string)
	}
	field = c.prefix + field
	if _, ok := c.found[field]; !ok {
		c.found[field] = fmt.Sprintf(format, args...)
	}
}

// line checks a required one-line string of at most MaxName characters.
func (c *check) line(field, s string) {
	if strings.TrimSpace(s) == "" {
		c.add(field, required)
		return
	}
	c.text(field, s, MaxName)
}

// text checks an optional one-line string.
func (c *check) text(field, s string, limit int) { c.str(field, s, limit, false) }

// prose checks an optional string that may have line breaks and tabs.
func (c *check) prose(field, s string, limit int) { c.str(field, s, limit, true) }

func (c *check) str(field, s string, limit int, lines bool) {
	if plain(s) && len(s) <= limit {
		return
	}
	if !utf8.ValidString(s) {
		c.add(field, "must be valid UTF-8")
		return
	}
	if utf8.RuneCountInString(s) > limit {
		c.add(field, "must have at most %d characters", limit)
		return
	}
	for _, r := range s {
		if lines && (r == '\n' || r == '\r' || r == '\t') {
			continue
		}
		if unicode.IsControl(r) {
			c.add(field, "must not contain control characters")
			return
		}
	}
}

// message checks an optional text for the clients of gateways: plain text that may have
// line breaks and no other control characters.
func (c *check) message(field, s string) {
	c.prose(field, s, MaxMessage)
	if CleanMessage(s) != s {
		c.add(field, "must have no characters that cannot be shown")
	}
}

// CleanMessage truncates a message to MaxMessage characters and removes characters that
// cannot be shown.
func CleanMessage(s string) string {
	if plain(s) && len(s) <= MaxMessage {
		return s
	}
	n := 0
	return strings.Map(func(r rune) rune {
		if n++; r != '\n' && !unicode.IsGraphic(r) || n > MaxMessage {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// CleanText removes control characters from s and truncates it to limit characters.
func CleanText(s string, limit int) string {
	if plain(s) && len(s) <= limit {
		return s
	}
	n := 0
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || n >= limit {
			return -1
		}
		n++
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// plain reports whether s is printable ASCII, which needs no further checks.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// id checks an optional identifier.
func (c *check) id(field, s string) {
	if s != "" && !ValidID(s) {
		c.add(field, "must be 1 to %d characters of A-Z, a-z, 0-9, _ and -", MaxID)
	}
}

// requiredID checks a required identifier.
func (c *check) requiredID(field, s string) {
	if s == "" {
		c.add(field, required)
		return
	}
	c.id(field, s)
}

// enum checks an optional string against its allowed values.
func (c *check) enum(field, s string, allowed []string) {
	if s == "" {
		return
	}
	for _, a := range allowed {
		if s == a {
			return
		}
	}
	c.add(field, "must be one of %s", strings.Join(allowed, ", "))
}

// requiredEnum checks a required string against its allowed values.
func (c *check) requiredEnum(field, s string, allowed []string) {
	if s == "" {
		c.add(field, required)
		return
	}
	c.enum(field, s, allowed)
}

// number checks that f is a number from low to high. NaN is rejected.
func (c *check) number(field string, f, low, high float64) {
	if !(f >= low && f <= high) || math.IsInf(f, 0) {
		c.add(field, "must be a number from %s to %s", figure(low), figure(high))
	}
}

// positive checks that f is a number above zero and at most high.
func (c *check) positive(field string, f, high float64) {
	if !(f > 0 && f <= high) {
		c.add(field, "must be a number above 0 and at most %s", figure(high))
	}
}

// count checks an integer from zero to high.
func (c *check) count(field string, n, high int64) {
	if n < 0 || n > high {
		c.add(field, "must be an integer from 0 to %d", high)
	}
}

func figure(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", f), "0"), ".")
}

// ValidID reports whether s has the form of an identifier: 1 to 64 characters
// of A-Z, a-z, 0-9, _ and -. Identifiers are otherwise opaque.
func ValidID(s string) bool {
	if len(s) == 0 || len(s) > MaxID {
		return false
	}
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '_', b == '-':
		default:
			return false
		}
	}
	return true
}

// ValidLabel reports whether s can be the name of a data-flow label: a lower-case letter, then
// lower-case letters, digits, _ and -, at most MaxLabel characters.
func ValidLabel(s string) bool {
	if len(s) == 0 || len(s) > MaxLabel || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for _, b := range []byte(s) {
		if (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '_' && b != '-' {
			return false
		}
	}
	return true
}

// ValidLabels returns the first MaxLabels valid names of a list, which is the list itself if it has no other; nil
// if there are none.
func ValidLabels(list []string) (valid []string) {
	if len(list) <= MaxLabels && !slices.ContainsFunc(list, func(s string) bool { return !ValidLabel(s) }) {
		return list
	}
	for _, s := range list {
		if ValidLabel(s) && len(valid) < MaxLabels {
			valid = append(valid, s)
		}
	}
	return valid
}

// labelNames checks an optional list of names of labels.
func (c *check) labelNames(field string, list []string) {
	if len(list) > MaxLabels {
		c.add(field, "must have at most %d entries", MaxLabels)
		return
	}
	for i, s := range list {
		if !ValidLabel(s) {
			c.add(entry(field, i, ""), "must be a lower-case letter, then lower-case letters, digits, _ and -, at most %d characters", MaxLabel)
		}
	}
}

// validEmail reports whether s has the form of an address: one @ with text before it
// and a host name after it, no spaces, at most 254 bytes. It does not check that mail
// can be delivered.
func validEmail(s string) bool {
	local, host, ok := strings.Cut(s, "@")
	if !ok || local == "" || host == "" || len(s) > 254 || len(local) > 64 || !utf8.ValidString(s) {
		return false
	}
	if strings.Contains(host, "@") || strings.HasPrefix(host, ".") || strings.HasSuffix(host, ".") || strings.Contains(host, "..") {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`<>()[],;:\"`, r)
	}) < 0
}
