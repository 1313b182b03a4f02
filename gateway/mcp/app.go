package mcp

import (
	"errors"
	"mime"
	"strings"
)

// app is the result of checking whether content is interactive (decision MSG14).
type app uint8

const (
	noApp   app = iota
	unclear     // two parsers could interpret it differently
	isApp       // takes precedence over unclear
)

// appOf reports whether a content block is interactive.
func appOf(body []byte, block Span) app {
	if body[block.Start] != '{' {
		return noApp
	}
	found := noApp
	for it := members(body, block); it.next(); {
		switch name := memberName(it.name.Of(body)); {
		case name == "type":
			if v, ok := stringAt(body, it.value); ok && strings.EqualFold(strings.TrimSpace(v), "ui") {
				found = max(found, isApp)
			}
		case name == "mimeType":
			found = max(found, appOfType(body, it.value))
		case name == "resource":
			found = max(found, appOfResource(body, it.value))
		case isCaseVariant(name, "type"), isCaseVariant(name, "mimeType"), isCaseVariant(name, "resource"):
			found = max(found, unclear)
		}
	}
	return found
}

// appOfResource reports whether an embedded resource is interactive.
func appOfResource(body []byte, resource Span) app {
	if body[resource.Start] != '{' {
		return noApp
	}
	found := noApp
	for it := members(body, resource); it.next(); {
		switch name := memberName(it.name.Of(body)); {
		case name == "mimeType":
			found = max(found, appOfType(body, it.value))
		case isCaseVariant(name, "mimeType"):
			found = max(found, unclear)
		}
	}
	return found
}

// isCaseVariant reports whether a name differs from a known one only by case.
func isCaseVariant(name, known string) bool { return name != known && strings.EqualFold(name, known) }

// appOfType reports whether a MIME type is a type of interactive content.
func appOfType(body []byte, at Span) app {
	text, ok := stringAt(body, at)
	if text = strings.TrimSpace(text); !ok || text == "" {
		return noApp
	}
	const community = "application/vnd.mcp-ui"
	if len(text) >= len(community) && strings.EqualFold(text[:len(community)], community) {
		return isApp
	}
	media, params, err := mime.ParseMediaType(text)
	if errors.Is(err, mime.ErrInvalidMediaParameter) && media != "text/html" {
		return noApp // a parameter cannot make another media type interactive
	}
	if err != nil {
		return unclear
	}
	if media != "text/html" {
		return noApp
	}
	profile, ok := params["profile"]
	if !ok && strings.Contains(strings.ToLower(text), "profile*") {
		return unclear // in a character set that this code does not decode
	}
	// mime.ParseMediaType keeps a backslash before a character that needs no
	// escape; remove it.
	for _, one := range strings.Fields(strings.ReplaceAll(profile, `\`, "")) {
		if strings.EqualFold(one, "mcp-app") {
			return isApp
		}
	}
	return noApp
}
