package federation

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// Bounds on instructions, in bytes.
const (
	maxInstructions    = 8 << 10 // of one upstream
	maxAllInstructions = 32 << 10
)

// answered are the capabilities that the gateway provides itself, with empty lists if no upstream
// has any items.
const answered = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{},"completions":{}}`

// description is the combined self-description of several upstreams for one caller, in the order
// of the file.
type description []described

type described struct {
	upstream     string
	capabilities members // of [passed]
	instructions string  // without invisible characters
}

// describe responds with the self-description of the gateway. The contributions of the upstreams
// are the parts of the response.
func (a *answer) describe(v *catalog.Shown, write func(description) string) *upstream.Response {
	all := a.description(v)
	return made(a.message([]byte(write(all))), func() *upstream.Parts {
		parts := &upstream.Parts{Join: func(results [][]byte) []byte {
			var left description
			for i, result := range results {
				var of struct {
					Capabilities members `json:"capabilities"`
					Instructions string  `json:"instructions"`
				}
				if result != nil && json.Unmarshal(result, &of) == nil {
					left = append(left, described{all[i].upstream, of.Capabilities, of.Instructions})
				}
			}
			return a.message([]byte(write(left)))
		}}
		for _, of := range all {
			result := map[string]any{}
			if len(of.capabilities) > 0 {
				result["capabilities"] = of.capabilities
			}
			if of.instructions != "" {
				result["instructions"] = of.instructions
			}
			text, err := json.Marshal(result)
			if err != nil { // a capability of an upstream that is not JSON, although it was scanned
				text = []byte("{}")
			}
			parts.List = append(parts.List, upstream.Part{Upstream: of.upstream, Result: text})
		}
		return parts
	})
}

// description collects the self-descriptions of the upstreams. Instructions are included for
// upstreams of which the caller may use an item.
func (a *answer) description(v *catalog.Shown) (all description) {
	for _, fd := range a.feeds {
		if !catalog.ViewOf(a.caller).Has(fd.Name) {
			continue
		}
		of := described{upstream: fd.Name, capabilities: maps.Clone(a.declared.of(fd.Name))}
		delete(of.capabilities, "extensions")
		if extensions := a.extensions(v, fd.Name); extensions != nil {
			of.capabilities["extensions"] = extensions
		}
		if offer := v.Offers[fd.Name]; offer != nil && a.opts.Config.Instructions != InstructionsNone {
			if text := cleanInstructions(a.Addresses(), fd.Name, offer.Instructions); text != "" {
				if _, may := a.known(v, fd.Name); may {
					of.instructions = text
				}
			}
		}
		if !a.uses(v, fd.Name) {
			of.capabilities = of.capabilities.withoutApps()
		}
		if len(of.capabilities) > 0 || of.instructions != "" {
			all = append(all, of)
		}
	}
	return all
}

// capabilities returns the capabilities for clients, as a JSON object. modern means 2026-07-28,
// which has tasks only as an extension.
func (d description) capabilities(modern bool) string {
	all := map[string]json.RawMessage{}
	_ = json.Unmarshal([]byte(answered), &all)
	for _, name := range passed {
		if modern && name == "tasks" {
			continue
		}
		union := map[string]json.RawMessage{}
		for _, of := range slices.SortedFunc(slices.Values(d), func(x, y described) int { return strings.Compare(x.upstream, y.upstream) }) {
			var each map[string]json.RawMessage
			if json.Unmarshal(of.capabilities[name], &each) != nil {
				continue
			}
			for member, value := range each {
				if _, has := union[member]; !has || name == "extensions" && member == mcp.ExtensionSkills && skillsOf(value).DirectoryRead {
					union[member] = value
				}
			}
		}
		if len(union) > 0 {
			all[name], _ = json.Marshal(union)
		}
	}
	out, err := json.Marshal(all)
	if err != nil { // a capability of an upstream that is not JSON, although it was scanned
		return answered
	}
	return string(out)
}

// describing returns the caller's items for the self-description. Private lists are read if an
// upstream with such lists has instructions, because these are only for callers who may use an
// item of it, and its skills if the rules allow some and not others.
func (a *answer) describing(ctx context.Context) *catalog.Shown {
	v := a.merge.For(ctx, a.caller)
	var kinds []mcp.ListKind
	for name := range v.Private {
		switch offer := v.Offers[name]; {
		case !catalog.ViewOf(a.caller).Has(name):
		case a.opts.Config.Instructions != InstructionsNone && offer != nil && offer.Instructions != "":
			return a.merge.For(ctx, a.caller, mcp.ListKinds[:]...)
		case a.needSkills(v, name):
			kinds = []mcp.ListKind{mcp.Skill}
		}
	}
	if kinds == nil {
		return v
	}
	return a.merge.For(ctx, a.caller, kinds...)
}

// instructionsMember returns the instructions of all upstreams as a further JSON member; empty
// without any. Each is between two lines with a random mark, so that the text of one upstream
// cannot imitate that of another.
func (a *answer) instructionsMember(d description) string {
	var out strings.Builder
	for _, of := range d {
		if of.instructions == "" {
			continue
		}
		part := "--- " + a.mark + " instructions of " + of.upstream + prefixNote(a.names, of.upstream) + " ---\n" + of.instructions + "\n--- " + a.mark + " end ---\n"
		if out.Len()+len(part) > maxAllInstructions {
			a.opts.Logger.Warn("the instructions of an upstream are omitted: the total is too long", "upstream", of.upstream, "bytes", maxAllInstructions)
			continue
		}
		out.WriteString(part)
	}
	if out.Len() == 0 {
		return ""
	}
	return `,"instructions":` + string(mcp.AppendString(nil, out.String()))
}

// prefixNote names the prefix that clients see on the tools of an upstream.
func prefixNote(names *catalog.Names, upstream string) string {
	if prefix := names.Prefix(upstream); prefix != "" {
		return " (names begin with " + prefix + ")"
	}
	return ""
}

// cleanInstructions removes invisible characters, rewrites the addresses of skills to those that clients
// see, and truncates the text to its bound.
func cleanInstructions(addresses *catalog.Addresses, upstream, text string) string {
	text = addresses.Instructions(upstream, mcp.RemoveInvisible(text))
	if len(text) > maxInstructions {
		text = strings.ToValidUTF8(text[:maxInstructions], "")
	}
	return strings.TrimSpace(text)
}
