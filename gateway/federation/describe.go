package federation

import (
	"context"
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
		for _, upstream := range slices.Sorted(maps.Keys(s.declared)) {
			var each map[string]json.RawMessage
			if json.Unmarshal(s.declared[upstream][name], &each) != nil {
				continue
			}
			for member, value := range each {
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

// describing is the view of the caller with which the gateway describes itself. The lists
// that are the caller's own are read where an upstream with such lists has instructions,
// which reach only callers who may use something of it.
func (a *answer) describing(ctx context.Context) *view {
	v := a.viewOf(ctx, a.caller)
	if a.opts.Config.Instructions == InstructionsNone {
		return v
	}
	for name := range v.private {
		if offer := v.offers[name]; offer != nil && offer.Instructions != "" {
			return a.viewOf(ctx, a.caller, catalog.Kinds[:]...)
		}
	}
	return v
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
		if _, may := a.known(v, fd.name); text == "" || !may {
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
