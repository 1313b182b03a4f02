package search

import (
	"encoding/json"

	"svc/gateway/mcp"
)

// cleanJSON returns a JSON value with all its strings cleaned and numbers
// unchanged. ok is false when the name of a member would have to be changed,
// because parameter names must not change. The value must have been scanned.
func cleanJSON(raw []byte) (clean []byte, ok bool) {
	clean = make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '"' {
			if c := raw[i]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
				clean = append(clean, c)
			}
			i++
			continue
		}
		end := i + 1
		for end < len(raw) && raw[end] != '"' {
			if raw[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(raw) {
			return nil, false
		}
		text, _ := mcp.StringValue(raw[i : end+1])
		i = end + 1
		cleaned := mcp.RemoveInvisible(text)
		if len(cleaned) != len(text) && isName(raw[i:]) {
			return nil, false
		}
		clean = mcp.AppendString(clean, cleaned)
	}
	return clean, true
}

// isName reports whether the string before rest is the name of a member.
func isName(rest []byte) bool {
	for _, c := range rest {
		switch c {
		case ' ', '\n', '\t', '\r':
		default:
			return c == ':'
		}
	}
	return false
}

// object decodes a JSON object by its exact member names; nil when raw is not an
// object.
func object(raw []byte) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// text decodes a JSON string; "" when raw is not a string.
func text(raw []byte) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
