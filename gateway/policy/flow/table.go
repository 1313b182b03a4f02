package flow

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"svc/gateway/mcp"
	"svc/gateway/mcp/match"
)

// Answer describes a message of an upstream for [Table.Sets]. Strings are used during the call only.
type Answer struct {
	// Upstream is the name of the upstream that sent the message.
	Upstream string
	// Asked is the method of the request that the message belongs to; empty for a message of a
	// standalone stream.
	Asked string
	// Tool is the visible name of the tool of a tools/call, or of the task; empty for none.
	Tool string
	// URI is the requested URI of a resources/read and the like; empty for none.
	URI string
	// Unknown is set where the call that the message belongs to is not known: on a resumed stream, or
	// for a task whose tool is not known. Every label of the upstream is set then.
	Unknown bool
	// Body is the message. It is read only if an entry has uri_prefix.
	Body []byte
	// Score is the injection score of the message; it is used only if [Table.Scores].
	Score float64
}

// Table is the compiled section. It is immutable and safe for concurrent use. A nil Table has no
// labels.
type Table struct {
	names     *Names
	upstreams map[string]Labels
	tools     map[string]Labels // by exact name
	patterns  []toolLabels
	any       Labels // of every tool
	uris      []uriLabels
	scores    []scoreLabels
	calls     Labels // of all entries that look at calls: tools and URIs
}

type (
	toolLabels struct {
		match.Matcher
		labels Labels
	}
	uriLabels struct {
		match.URIPrefix
		labels Labels
	}
	scoreLabels struct {
		least  float64
		labels Labels
	}
)

// Compile compiles a section that was validated; nil for one without labels.
func Compile(c *Config) (*Table, error) {
	if !c.Used() {
		return nil, nil
	}
	t := &Table{names: c.Names(), upstreams: map[string]Labels{}, tools: map[string]Labels{}}
	for i := range c.Labels {
		if err := t.add(&c.Labels[i]); err != nil {
			return nil, fmt.Errorf("data_flow.labels[%d]: %w", i, err)
		}
	}
	return t, nil
}

func (t *Table) add(c *LabelConfig) error {
	l := t.names.Of(c.Name)
	for _, name := range c.Upstreams {
		t.upstreams[name] |= l
	}
	if c.InjectionScore != nil {
		t.scores = append(t.scores, scoreLabels{*c.InjectionScore, l})
	}
	if c.URIPrefix != nil {
		p, err := match.CompileURI(*c.URIPrefix)
		if err != nil {
			return err
		}
		t.uris = append(t.uris, uriLabels{p, l})
		t.calls |= l
	}
	written := c.Tool()
	if len(written.Keys()) == 0 {
		return nil
	}
	m, err := match.Compile(&written)
	if err != nil {
		return err
	}
	t.calls |= l
	switch m.Kind {
	case match.Every:
		t.any |= l
	case match.ByName:
		for _, name := range m.Names {
			t.tools[name] |= l
		}
	default:
		t.patterns = append(t.patterns, toolLabels{m, l})
	}
	return nil
}

// Names returns the declared names.
func (t *Table) Names() *Names {
	if t == nil {
		return nil
	}
	return t.names
}

// Scores reports whether an entry has injection_score, so that answers must be scored.
func (t *Table) Scores() bool { return t != nil && len(t.scores) > 0 }

// Sets returns the labels that a message sets for its receiver. It is asked about messages with text of
// their own: not about the gateway's own errors, what was withheld, and empty results.
func (t *Table) Sets(a *Answer) (l Labels) {
	if t == nil {
		return 0
	}
	if a.Unknown {
		l = t.calls
	}
	if a.Unknown || !describes(a.Asked) {
		l |= t.upstreams[a.Upstream]
	}
	if a.Tool != "" {
		l |= t.any | t.tools[a.Tool]
		for i := range t.patterns {
			if p := &t.patterns[i]; !l.All(p.labels) && p.Match(a.Tool) {
				l |= p.labels
			}
		}
	}
	for _, s := range t.scores {
		if a.Score >= s.least {
			l |= s.labels
		}
	}
	if len(t.uris) > 0 {
		f := finder{table: t, body: a.Body, sets: l}
		if a.URI != "" {
			f.uri(a.URI)
		}
		start := len(a.Body) - len(bytes.TrimLeft(a.Body, " \t\r\n"))
		f.object(mcp.Span{Start: start, End: len(a.Body)}, false, maxDepth)
		l = f.sets
	}
	return l
}

// describes reports whether the results of a method describe the upstream and its tools, and are not
// content.
func describes(method string) bool {
	switch method {
	case mcp.MethodInitialize, mcp.MethodDiscover, mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourceTemplatesList:
		return true
	}
	return false
}

const (
	// maxDepth bounds the objects around a block of content.
	maxDepth = 12
	// maxCost bounds the URIs that are compared in one message: their bytes, and more for letters beyond
	// ASCII. A message with more of them sets the labels of all prefixes.
	maxCost = 1 << 20
)

// finder compares the URIs of the resources in a message.
type finder struct {
	table *Table
	body  []byte
	sets  Labels
	cost  int
}

// object reads an object of the protocol: a message, a result, a block of content. resource is set for
// one whose member uri names what it contains or links to.
func (f *finder) object(at mcp.Span, resource bool, depth int) {
	if !at.Present() || at.End > len(f.body) || f.body[at.Start] != '{' {
		return
	}
	for it := mcp.Members(f.body, at); it.Next(); {
		value := it.Value()
		switch name := string(it.Name()); {
		case depth == 0:
			f.all()
			return
		case name == "uri" && resource:
			if uri, ok := mcp.StringValue(value.Of(f.body)); ok {
				f.uri(uri)
			} else {
				f.all()
			}
		case name == "content", name == "contents", name == "skills":
			f.each(value, true, depth-1)
		case name == "messages":
			f.each(value, false, depth-1)
		case name == "resource", name == "skill":
			f.object(value, true, depth-1)
		case name == "result", name == "params":
			f.object(value, false, depth-1)
		case name == "inputRequests" && f.body[value.Start] == '{':
			for in := mcp.Members(f.body, value); in.Next(); {
				f.object(in.Value(), false, depth-1)
			}
		}
	}
}

// each reads an object, or those in an array.
func (f *finder) each(at mcp.Span, resource bool, depth int) {
	if f.body[at.Start] != '[' {
		f.object(at, resource, depth)
		return
	}
	for it := mcp.Elements(f.body, at); it.Next(); {
		f.object(it.Value(), resource, depth)
	}
}

// uri compares one URI with all prefixes whose labels are not set yet.
func (f *finder) uri(uri string) {
	f.cost += 64 + len(uri)
	if strings.ContainsFunc(uri, func(r rune) bool { return r >= utf8.RuneSelf }) {
		f.cost += 16 * len(uri)
	}
	if f.cost > maxCost {
		f.all()
		return
	}
	read := match.ParseURI(uri)
	for i := range f.table.uris {
		if p := &f.table.uris[i]; !f.sets.All(p.labels) && p.MatchURI(&read) != match.No {
			f.sets |= p.labels
		}
	}
}

// all sets the labels of all prefixes.
func (f *finder) all() {
	for i := range f.table.uris {
		f.sets |= f.table.uris[i].labels
	}
}
