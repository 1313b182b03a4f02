package toolsearch

import (
	"context"
	"fmt"
	"time"

	"svc/gateway/catalog"
	"svc/gateway/lister"
)

// Limits of an upstream's list.
const (
	maxTools  = 5000
	maxBytes  = 8 << 20 // of all pages
	userAgent = "svc-tool-search"
)

// listing is the list of tools of an upstream.
type listing struct {
	tools []*Tool
	// private is set when the list is for one caller only.
	private bool
	// ttl is the cache lifetime that the upstream declares, if hasTTL is set.
	ttl    time.Duration
	hasTTL bool
	// left counts definitions that are not in tools; why is the reason for one
	// of them.
	left int
	why  error
}

// toolLister lists the tools of one upstream. It is used by one goroutine.
type toolLister struct {
	name   string // of the upstream
	lister lister.Lister
	keep   func(upstream string, o *lister.Offer) *lister.Offer // nil for all
}

func newToolLister(s Source, opts *Options) toolLister {
	return toolLister{name: s.Name, keep: opts.Keep, lister: lister.Lister{
		Transport: s.Transport, Agent: userAgent, Version: opts.Version, Protocol: s.Protocol, Bounds: lister.Bounds{Items: maxTools, Bytes: maxBytes},
	}}
}

// list requests all pages. An upstream without tools has an empty list; an
// incomplete list is an error, because searches in it would be misleading.
func (l *toolLister) list(ctx context.Context) (*listing, error) {
	offer, err := l.lister.Read(ctx, catalog.Tool)
	if err != nil {
		return nil, err
	}
	if l.keep != nil {
		offer = l.keep(l.name, offer)
	}
	got := &offer.Lists[0]
	if got.Cut != nil {
		return nil, fmt.Errorf("tools/list: %w", got.Cut)
	}
	out := &listing{private: got.Private, ttl: got.TTL, hasTTL: got.HasTTL}
	out.add(l.name, got.Items)
	return out, nil
}

// add adds the tools of a list, each name once.
func (out *listing) add(name string, tools [][]byte) {
	seen := make(map[string]bool, len(tools))
	for _, raw := range tools {
		t, err := parseTool(name, raw)
		if err == nil && seen[t.Name] {
			err = fmt.Errorf("%q is listed twice", t.Name)
		}
		if err != nil {
			out.left++
			out.why = err
			continue
		}
		seen[t.Name] = true
		out.tools = append(out.tools, t)
	}
}
