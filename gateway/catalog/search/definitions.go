package search

import (
	"fmt"
	"maps"
	"sync"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
)

// maxLoggedChanges bounds the changes of one list that are logged individually.
const maxLoggedChanges = 100

// Stats is the state of one upstream's list.
type Stats struct {
	Upstream string
	// Tools counts the searchable tools.
	Tools int
	// Failures counts failed lists, Changed changed definitions.
	Failures, Changed uint64
	// BackingOff is set when the last list failed; Private when the list is for
	// one caller only and therefore not searchable.
	BackingOff, Private bool
}

// definitions are the definitions that upstreams have listed.
type definitions struct {
	mu         sync.Mutex
	byUpstream map[string]*listed
	saving     sync.Mutex // one at a time; taken before mu
}

// listed are the definitions of one upstream.
type listed struct {
	known   known
	changed uint64
	private bool
}

// openDefinitions reads the hashes. A file that cannot be read is logged and replaced.
func (s *Service) openDefinitions() {
	seen, err := readKnown(s.opts.State)
	if err != nil {
		s.opts.Logger.Warn("hashes of tool definitions are unknown: changes since the last start are not detected", "error", err)
	}
	s.definitions.byUpstream = map[string]*listed{}
	for _, fd := range s.feeds {
		l := &listed{known: seen[fd.Name]}
		if l.known == nil {
			l.known = known{}
		}
		s.definitions.byUpstream[fd.Name] = l
	}
}

// take compares the definitions of a reading with those before.
func (s *Service) take(fd *catalog.Feed, o *catalog.Offer) {
	list := o.List(mcp.Tool)
	tools, left, why := s.parse(fd.Name, list)
	if left > 0 {
		s.opts.Logger.Warn("some tools are left out of the search", "upstream", fd.Name, "tools", left, "reason", why)
	}
	changed := s.compare(fd.Name, tools)
	s.definitions.mu.Lock()
	defer s.definitions.mu.Unlock()
	l, private := s.definitions.byUpstream[fd.Name], fd.Private(o, list)
	l.changed += uint64(changed)
	if private && !l.private {
		s.opts.Logger.Warn("tools are not searchable: the upstream lists them for one caller alone (cacheScope private)", "upstream", fd.Name,
			"fix", "let the upstream answer tools/list with cacheScope public if its tools are the same for all callers")
	}
	l.private = private
}

// parse returns the valid tools of a list that clients see, each name once. left counts the
// invalid ones, and why is the reason for one of them.
func (s *Service) parse(upstream string, list *catalog.List) (tools []*Tool, left int, why error) {
	seen := make(map[string]bool, len(list.Items))
	for _, raw := range list.Items {
		if s.opts.Names != nil {
			if raw = s.opts.Names.Rename(upstream, mcp.Tool, raw); raw == nil {
				continue
			}
		}
		t, err := parseTool(upstream, raw)
		if err == nil && seen[t.Name] {
			err = fmt.Errorf("%q is listed twice", t.Name)
		}
		if err != nil {
			left, why = left+1, err
			continue
		}
		seen[t.Name] = true
		tools = append(tools, t)
	}
	return tools, left, why
}

// compare logs definitions that have changed, and stores the current hashes.
func (s *Service) compare(upstream string, tools []*Tool) (changed int) {
	names, news := s.definitions.remember(upstream, tools)
	if news {
		defer s.save() // saved after logging: a change may be logged twice, but is never lost
	}
	for _, name := range names[:min(len(names), maxLoggedChanges)] {
		s.opts.Logger.Warn("tool_definition_changed", "upstream", upstream, "tool", name)
		if s.opts.Changed != nil {
			s.opts.Changed(upstream, name)
		}
	}
	if more := len(names) - maxLoggedChanges; more > 0 {
		s.opts.Logger.Warn("further definitions changed", "upstream", upstream, "tools", more)
	}
	return len(names)
}

// remember stores the hashes of a list, and returns the tools whose hash has
// changed. news reports whether there is anything to save.
func (d *definitions) remember(upstream string, tools []*Tool) (changed []string, news bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.byUpstream[upstream].known
	if len(known) > 2*maxTools { // names come from the upstream, so bound the map
		clear(known)
	}
	for _, t := range tools {
		before, ok := known[t.Name]
		if ok && before == t.digest {
			continue
		}
		known[t.Name] = t.digest
		news = true
		if ok {
			changed = append(changed, t.Name)
		}
	}
	return changed, news
}

// save writes the hashes to their file. A failure is logged: until a save
// succeeds, changes across a restart are not detected.
func (s *Service) save() {
	if s.opts.State == "" {
		return
	}
	d := &s.definitions
	d.saving.Lock()
	defer d.saving.Unlock()
	all := make(map[string]known, len(d.byUpstream))
	d.mu.Lock()
	for upstream, l := range d.byUpstream {
		all[upstream] = maps.Clone(l.known)
	}
	d.mu.Unlock()
	if err := writeKnown(s.opts.State, all); err != nil {
		s.opts.Logger.Error("hashes of tool definitions were not saved", "error", err)
	}
}

// Stats returns the state of every upstream's list without federation.
func (s *Service) Stats() []Stats {
	if s == nil || len(s.feeds) == 0 {
		return nil
	}
	tools := map[string]int{}
	for _, t := range s.index(s.lists.Current().Catalog).tools {
		tools[t.Upstream]++
	}
	s.definitions.mu.Lock()
	defer s.definitions.mu.Unlock()
	out := make([]Stats, len(s.feeds))
	for i, fd := range s.feeds {
		l := s.definitions.byUpstream[fd.Name]
		out[i] = Stats{Upstream: fd.Name, Tools: tools[fd.Name], Changed: l.changed, Private: l.private}
		out[i].Failures, out[i].BackingOff = fd.Health()
	}
	return out
}
