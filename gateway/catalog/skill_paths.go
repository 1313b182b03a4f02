package catalog

import (
	"hash/maphash"
	"sync"

	"svc/gateway/mcp"
)

// SkillPaths are the directories of the skills that upstreams have listed or returned, as clients see
// them. Nothing rewrites the files below them. Of each upstream the last MaxItems directories are known
// at least, until the process ends. It is safe for concurrent use.
type SkillPaths struct {
	mu         sync.RWMutex
	seed       maphash.Seed
	byUpstream map[string]*[2]map[uint64]struct{} // hashes of directories: the newer ones, the older ones
}

// NewSkillPaths returns paths of no skill.
func NewSkillPaths() *SkillPaths {
	return &SkillPaths{seed: maphash.MakeSeed(), byUpstream: map[string]*[2]map[uint64]struct{}{}}
}

// Learn adds the directory of a skill of an upstream.
func (p *SkillPaths) Learn(upstream, uri string) {
	directory, ok := SkillDirectory(uri)
	if p == nil || !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.byUpstream[upstream]
	if of == nil {
		of = &[2]map[uint64]struct{}{{}, {}}
		p.byUpstream[upstream] = of
	}
	if len(of[0]) >= MaxItems {
		of[1], of[0] = of[0], map[uint64]struct{}{}
	}
	of[0][maphash.String(p.seed, directory)] = struct{}{}
}

// LearnEntries adds the skills of an upstream's answer to skills/list or skills/get.
func (p *SkillPaths) LearnEntries(upstream, asked string, m *mcp.Message) {
	if p == nil || m.Kind != mcp.Response {
		return
	}
	entry := func(at mcp.Span) {
		if uri, ok := mcp.StringValue(mcp.Find(m.Body, at, "uri").Of(m.Body)); ok {
			p.Learn(upstream, uri)
		}
	}
	switch asked {
	case mcp.MethodSkillsGet:
		entry(mcp.Find(m.Body, m.Spans.Result, "skill"))
	case mcp.MethodSkillsList:
		list := mcp.Find(m.Body, m.Spans.Result, mcp.Skill.Member())
		if !list.Present() || m.Body[list.Start] != '[' {
			return
		}
		for each := mcp.Elements(m.Body, list); each.Next(); {
			entry(each.Value())
		}
	}
}

// Has reports whether a URI of an upstream is that of a file of a skill.
func (p *SkillPaths) Has(upstream, uri string) bool {
	if p == nil {
		return false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	of := p.byUpstream[upstream]
	if of == nil {
		return false
	}
	var h maphash.Hash
	h.SetSeed(p.seed)
	from := 0
	for i := range len(uri) {
		if uri[i] != '/' {
			continue
		}
		_, _ = h.WriteString(uri[from:i]) // never fails
		from = i
		sum := h.Sum64()
		for _, known := range of {
			if _, ok := known[sum]; ok {
				return true
			}
		}
	}
	return false
}
