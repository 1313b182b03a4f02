package verdict

import (
	"bytes"

	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/refusal"
)

// rewrite replaces a message by the one that a step has made of it. Nothing may change the entries and
// files of skills, because clients compare them with their digests: an answer with one that the step has
// changed is refused, and such an entry is left out of a list. rule is the rule of the step, empty for a
// policy of the control plane.
func (in *Input) rewrite(m, with *mcp.Message, rule string, r *Result) {
	if in.Direction == policy.ServerToClient && !bytes.Equal(m.Body, with.Body) && !in.keepSkills(m, with, rule, r) {
		r.refuse(refusal.SkillRedacted.WithRule(rule), audit.ActionDeny)
		r.Governed.Tokens = nil
		return
	}
	*m = *with
}

// keepSkills restores the entries and files of skills in a rewritten message; false if the message must
// be refused.
func (in *Input) keepSkills(before, after *mcp.Message, rule string, r *Result) bool {
	asked := in.Asked.Method
	if in.Resumed || before.Kind != mcp.Response {
		asked = ""
	}
	files, rewritten := mcp.Contents(before, asked), mcp.Contents(after, asked)
	for i, at := range files {
		uri, _ := mcp.StringValue(mcp.Find(before.Body, at, "uri").Of(before.Body))
		isFile := in.Skills.Has(in.Upstream, uri) || asked == mcp.MethodResourcesRead && in.Skills.Has(in.Upstream, in.Asked.URI)
		if isFile && (len(rewritten) != len(files) || !sameJSON(at.Of(before.Body), rewritten[i].Of(after.Body))) {
			return false
		}
	}
	if before.Kind != mcp.Response || before.IsError {
		return true
	}
	if asked == "" || asked == mcp.MethodSkillsGet {
		if !sameJSON(mcp.Find(before.Body, before.Spans.Result, "skill").Of(before.Body), mcp.Find(after.Body, after.Spans.Result, "skill").Of(after.Body)) {
			return false
		}
	}
	if asked == "" || asked == mcp.MethodSkillsList {
		return in.keepEntries(before, after, rule, r)
	}
	return true
}

// keepEntries gives a rewritten list of skills the entries that the step did not change, as they were.
func (in *Input) keepEntries(before, after *mcp.Message, rule string, r *Result) bool {
	list, rewritten := mcp.Find(before.Body, before.Spans.Result, mcp.Skill.Member()), mcp.Find(after.Body, after.Spans.Result, mcp.Skill.Member())
	if !list.Present() && !rewritten.Present() {
		return true
	}
	if !list.Present() || !rewritten.Present() || before.Body[list.Start] != '[' || after.Body[rewritten.Start] != '[' {
		return false
	}
	kept, left := []byte{'['}, false
	old, changed := mcp.Elements(before.Body, list), mcp.Elements(after.Body, rewritten)
	for old.Next() {
		if !changed.Next() {
			return false
		}
		entry := old.Value().Of(before.Body)
		if !sameJSON(entry, changed.Value().Of(after.Body)) {
			left = true
			continue
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(kept, entry...)
	}
	if changed.Next() || mcp.Scan(mcp.Splice(nil, after.Body, mcp.Edit{At: rewritten, With: append(kept, ']')}), after) != nil {
		return false
	}
	if left {
		r.LeftOut = append(r.LeftOut, audit.LeftOut{Upstream: in.Upstream, RuleID: rule})
	}
	return true
}

// sameJSON reports whether two JSON values are equal, in any spelling.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, err := mcp.JSON(a)
	if err != nil {
		return false
	}
	y, err := mcp.JSON(b)
	return err == nil && bytes.Equal(x, y)
}
