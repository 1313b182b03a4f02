package federation

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"svc/gateway/catalog"
	"svc/gateway/invisible"
)

// Bounds on instructions, in bytes.
const (
	maxInstructions    = 8 << 10 // of one upstream
	maxAllInstructions = 32 << 10
)

// answered are the capabilities that the gateway answers for itself, with empty lists
// where no upstream has any.
const answered = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{},"completions":{}}`

// passed are the capabilities that upstreams answer for: the union of what they
// declare.
var passed = []string{"tasks", "extensions", "experimental"}

// capabilities returns what clients may use, as a JSON object. modern is the
// generation of 2026-07-28, which has no tasks but as an extension.
func (s *snapshot) capabilities(modern bool) string {
	all := map[string]json.RawMessage{}
	_ = json.Unmarshal([]byte(answered), &all)
	for _, name := range passed {
		if modern && name == "tasks" {
			continue
		}
		union := map[string]json.RawMessage{}
		for _, upstream := range slices.Sorted(maps.Keys(s.offers)) {
			var declared map[string]json.RawMessage
			var members map[string]json.RawMessage
			if json.Unmarshal(s.offers[upstream].Capabilities, &declared) != nil || json.Unmarshal(declared[name], &members) != nil {
				continue
			}
			for member, value := range members {
				if _, has := union[member]; !has {
					union[member] = value
				}
			}
		}
		if len(union) > 0 {
			all[name], _ = json.Marshal(union)
		}
	}
	out, err := json.Marshal(all)
	if err != nil { // a capability of an upstream that is no JSON: it was scanned
		return answered
	}
	return string(out)
}

// instructions returns those of all upstreams of which the caller may use something.
// Each stands between two lines with a random mark, so that the text of one upstream
// cannot pass for that of another.
func (a *answer) instructions(v *view) string {
	if a.opts.Config.Instructions == InstructionsNone {
		return ""
	}
	var out strings.Builder
	for _, fd := range a.feeds {
		offer := v.offers[fd.name]
		if offer == nil {
			continue
		}
		text := cleanInstructions(offer.Instructions)
		if text == "" || !a.uses(v, fd.name) {
			continue
		}
		part := "--- " + a.mark + " instructions of " + fd.name + prefixNote(a.names, fd.name) + " ---\n" + text + "\n--- " + a.mark + " end ---\n"
		if out.Len()+len(part) > maxAllInstructions {
			a.opts.Logger.Warn("the instructions of an upstream are left out: all together are too long", "upstream", fd.name, "bytes", maxAllInstructions)
			continue
		}
		out.WriteString(part)
	}
	return out.String()
}

// prefixNote names the prefix under which clients know the tools of an upstream.
func prefixNote(names *catalog.Names, upstream string) string {
	if prefix := names.Prefix(upstream); prefix != "" {
		return " (names begin with " + prefix + ")"
	}
	return ""
}

// cleanInstructions removes characters that a person does not see, and cuts the text to
// its bound.
func cleanInstructions(text string) string {
	text = invisible.Remove(text)
	if len(text) > maxInstructions {
		text = strings.ToValidUTF8(text[:maxInstructions], "")
	}
	return strings.TrimSpace(text)
}
