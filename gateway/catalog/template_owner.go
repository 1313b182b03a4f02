package catalog

import (
	"slices"
	"strings"
)

// heads are the literal prefixes (heads) of owned templates: an upstream owns the uris that begin
// with one of its heads; the longest matching head takes precedence. No head of one upstream is a
// prefix of a head of another.
type heads struct {
	owner   map[string]string // upstream by head
	sorted  []string
	lengths []int // of the heads, each once, the longest first
}

// newHeads returns the heads of templates, given as template → owner.
func newHeads(templates map[string]string) *heads {
	h := &heads{owner: make(map[string]string, len(templates))}
	for template, upstream := range templates {
		if text, ok := head(template); ok {
			h.owner[text] = upstream
			h.sorted = append(h.sorted, text)
			h.lengths = append(h.lengths, len(text))
		}
	}
	slices.Sort(h.sorted)
	h.sorted = slices.Compact(h.sorted)
	slices.SortFunc(h.lengths, func(a, b int) int { return b - a })
	h.lengths = slices.Compact(h.lengths)
	return h
}

// add makes the upstream the owner of the uris that begin with the head of a template.
func (h *heads) add(template, upstream string) {
	text, ok := head(template)
	if _, known := h.owner[text]; !ok || known {
		return
	}
	h.owner[text] = upstream
	i, _ := slices.BinarySearch(h.sorted, text)
	h.sorted = slices.Insert(h.sorted, i, text)
	if i, found := slices.BinarySearchFunc(h.lengths, len(text), func(a, b int) int { return b - a }); !found {
		h.lengths = slices.Insert(h.lengths, i, len(text))
	}
}

// ownerOf returns the owner of the longest head of a uri.
func (h *heads) ownerOf(uri string) (upstream string, ok bool) {
	for _, n := range h.lengths {
		if n > len(uri) {
			continue
		}
		if upstream, ok := h.owner[uri[:n]]; ok {
			return upstream, true
		}
	}
	return "", false
}

// ofDirectory returns the upstream of a directory that is a head, or that only has heads of one
// upstream below.
func (h *heads) ofDirectory(uri string) (upstream string, ok bool) {
	uri = strings.TrimSuffix(uri, "/") + "/"
	if upstream, ok := h.ownerOf(uri); ok {
		return upstream, true
	}
	i, _ := slices.BinarySearch(h.sorted, uri)
	for ; i < len(h.sorted) && strings.HasPrefix(h.sorted[i], uri); i++ {
		owner := h.owner[h.sorted[i]]
		if upstream != "" && owner != upstream {
			return "", false
		}
		upstream = owner
	}
	return upstream, upstream != ""
}

// covers returns another upstream with a template that overlaps the given template.
func (h *heads) covers(template, upstream string) (other string, ok bool) {
	text, has := head(template)
	if !has {
		return "", false
	}
	if owner, ok := h.ownerOf(text); ok && owner != upstream {
		return owner, true
	}
	i, _ := slices.BinarySearch(h.sorted, text)
	for ; i < len(h.sorted) && strings.HasPrefix(h.sorted[i], text); i++ {
		if owner := h.owner[h.sorted[i]]; owner != upstream {
			return owner, true
		}
	}
	return "", false
}

// head is the part of a template before its first expression. ok is false for a template that
// owns nothing, because its head has no scheme.
func head(template string) (h string, ok bool) {
	h, _, _ = strings.Cut(template, "{")
	scheme, _, found := strings.Cut(h, ":")
	if !found || scheme == "" {
		return "", false
	}
	for i := range len(scheme) {
		c := scheme[i] | 0x20
		if (c < 'a' || c > 'z') && (i == 0 || (c < '0' || c > '9') && scheme[i] != '+' && scheme[i] != '-' && scheme[i] != '.') {
			return "", false
		}
	}
	return h, true
}
