package pins

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// checkRead refuses a resources/read of an address of a skill that is not approved, if the upstream has
// pin_skills: block. What an upstream responds is compared by [View.skills].
func (g *Guard) checkRead(u *guarded, c *upstream.Caller, method, address string) (Kind, *refusal.Refusal, error) {
	if method != mcp.MethodResourcesRead || !u.blocks(Skill) {
		return "", nil, nil
	}
	if is, _ := u.stands(g.pins.Load(), c, address); is != withheld {
		return "", nil, nil
	}
	u.count(true)
	return Skill, &refusal.SkillChanged, nil
}

// keepFiles decides for each resource of a list whether a client may get it: the directories and files of
// approved skills, and what is of no skill.
func (u *guarded) keepFiles(items [][]byte, p *Pins, c *upstream.Caller) []bool {
	keep := make([]bool, len(items))
	for i, raw := range items {
		uri, _ := mcp.StringValue(mcp.Find(raw, mcp.Span{End: len(raw)}, "uri").Of(raw))
		is, _ := u.stands(p, c, uri)
		keep[i] = is != withheld || p.skillsOf(u.name).isAbove(uri)
	}
	return keep
}

// skills compares what a message of an upstream has of its skills with the approved ones: the entry in the
// answer to skills/get, the children in that to resources/directory/read, and the bytes of files wherever the
// protocol has contents of resources. resumed is set when the request is unknown.
func (v *View) skills(ctx context.Context, u *guarded, asked *mcp.Message, resumed bool, m *mcp.Message) (refused *refusal.Refusal, changed bool) {
	g, blocks := v.guard, u.blocks(Skill)
	c := comparison{u: u, caller: v.caller, m: m, result: m.Kind == mcp.Response && !m.IsError, resumed: resumed, asked: asked.Method}
	c.contents = mcp.Contents(m, "")
	gets := c.answers(mcp.MethodSkillsGet)
	lists := c.answers(mcp.MethodDirectoryRead) || !g.federated && c.answers(mcp.MethodResourcesList)
	if !gets && !lists && !c.answers(mcp.MethodResourcesRead) && len(c.contents) == 0 {
		return nil, false
	}
	g.awaitFirst(ctx, u, v.caller)
	c.p = g.pins.Load()
	if !g.decided(u, Skill, c.p) && !blocks {
		return nil, false // warn: nothing is approved yet that could differ
	}
	if lists && blocks && !c.cutChildren() {
		return &refusal.UpstreamInvalid, false
	}
	if gets {
		pin, ok := c.entry()
		if ok && pin.Subject.Kind != "" {
			g.noteListed(u, v.caller, []Pin{pin}, c.p)
		}
		changed = !ok || pin.Subject.Kind != "" && !approved(c.p, pin)
	}
	address := asked.URI
	if v.own != "" {
		address = v.own
	}
	if file, ok := c.files(address); !ok {
		if changed = true; u.firstFile(file) {
			g.log.Warn("skill_changed", "upstream", u.name, "kind", "file", "name", file, "withheld", blocks, "fix", "svc tools diff")
		}
	}
	if !changed {
		return nil, false
	}
	if u.count(blocks); blocks {
		refused = &refusal.SkillChanged
	}
	return refused, true
}

// comparison is the comparison of one message with the approved skills.
type comparison struct {
	u        *guarded
	p        *Pins
	caller   *upstream.Caller
	m        *mcp.Message
	contents []mcp.Span // the contents of resources in the message
	result   bool       // the message is a response without an error
	resumed  bool
	asked    string // method of the request
}

// answers reports whether the message may be the result of a request with a method.
func (c *comparison) answers(method string) bool {
	return c.result && (c.resumed || c.asked == method)
}

// member returns a member of the result; ok is false if there is one whose name differs by case only.
func (c *comparison) member(name string) (at mcp.Span, ok bool) {
	return onlyMember(c.m.Body, c.m.Spans.Result, name)
}

func onlyMember(body []byte, object mcp.Span, name string) (at mcp.Span, ok bool) {
	if !object.Present() || body[object.Start] != '{' {
		return at, true
	}
	for it := mcp.Members(body, object); it.Next(); {
		switch found := string(it.Name()); {
		case found == name:
			at = it.Value()
		case strings.EqualFold(found, name):
			return at, false
		}
	}
	return at, true
}

// cutChildren removes the children of a directory that are not approved. ok is false for an ambiguous
// response.
func (c *comparison) cutChildren() (ok bool) {
	var items [][]byte
	member := mcp.Resource.Member()
	if _, _, ok := mcp.CutList(c.m, member, func(raw []byte) bool { items = append(items, raw); return true }); !ok {
		return false
	}
	keep, i := c.u.keepFiles(items, c.p, c.caller), -1
	body, changed, ok := mcp.CutList(c.m, member, func([]byte) bool { i++; return keep[i] })
	if !ok || !changed {
		return ok
	}
	if ok = mcp.Scan(body, c.m) == nil; ok {
		c.contents = mcp.Contents(c.m, "")
	}
	return ok
}

// entry returns the entry in the answer to skills/get, the zero Pin without one. ok is false for an entry
// that cannot be read.
func (c *comparison) entry() (pin Pin, ok bool) {
	at, ok := c.member("skill")
	if !ok || !at.Present() {
		return Pin{}, ok
	}
	pin, err := DefineListed(c.u.name, Skill, at.Of(c.m.Body))
	return pin, err == nil
}

// files compares the contents of resources in the message. address is the one that the request names. ok is
// false if any is not approved; file is its address.
func (c *comparison) files(address string) (file string, ok bool) {
	body := c.m.Body
	var list mcp.Span // the answer to resources/read
	want := outside
	if c.answers(mcp.MethodResourcesRead) {
		if list, ok = c.member("contents"); !ok {
			return address, false
		}
		if !c.resumed {
			want, _ = c.u.stands(c.p, c.caller, address)
		}
		if want == withheld || want == named && !c.isOne(list) {
			return address, false
		}
	}
	for _, at := range c.contents {
		uri, content, ok := contentOf(body, at)
		is, files := c.u.stands(c.p, c.caller, uri)
		read := list.Start <= at.Start && at.End <= list.End
		switch {
		case !ok, is == withheld, read && want == named && uri != address:
			return uri, false
		case read && c.resumed && is == outside && len(c.p.skillsOf(c.u.name).named) > 0:
			return uri, false // it may be the answer to the read of any file
		case slices.ContainsFunc(files, func(f SkillFile) bool { return !f.holds(content) }):
			return uri, false
		}
	}
	return "", true
}

// isOne reports whether the answer to the read of a file has exactly one content, or asks the client for
// input instead.
func (c *comparison) isOne(list mcp.Span) bool {
	if !list.Present() {
		return c.m.ResultType == mcp.ResultInputRequired
	}
	n := 0
	if c.m.Body[list.Start] == '[' {
		for it := mcp.Elements(c.m.Body, list); it.Next(); {
			if n++; c.m.Body[it.Value().Start] != '{' {
				return false
			}
		}
	}
	return n == 1
}

// Content returns the bytes of the file in the answer to its read; ok is false if the answer has others.
func (f *SkillFile) Content(m *mcp.Message) (content []byte, ok bool) {
	list := mcp.Contents(m, "")
	if len(list) != 1 {
		return nil, false
	}
	uri, content, ok := contentOf(m.Body, list[0])
	return content, ok && uri == f.URI && f.holds(content)
}

// contentOf returns the address and the bytes of the contents of a resource at a span: those of its text, or of
// its blob in base64. ok is false if a client may read another address or other bytes there.
func contentOf(body []byte, at mcp.Span) (uri string, content []byte, ok bool) {
	var parts [3]mcp.Span
	for i, name := range [...]string{"uri", "text", "blob"} {
		if parts[i], ok = onlyMember(body, at, name); !ok {
			return uri, nil, false
		}
		if i == 0 {
			uri, _ = mcp.StringValue(parts[i].Of(body))
		}
	}
	text, isText := mcp.StringValue(parts[1].Of(body))
	blob, isBlob := mcp.StringValue(parts[2].Of(body))
	if isText != parts[1].Present() || isBlob != parts[2].Present() || isText && isBlob {
		return uri, nil, false
	}
	if !isBlob {
		return uri, []byte(text), true
	}
	content, err := base64.StdEncoding.Strict().DecodeString(blob)
	return uri, content, err == nil
}
