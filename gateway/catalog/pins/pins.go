package pins

import (
	"maps"
	"time"
)

// Status is the result of comparing a listed definition with its pin.
type Status string

// The statuses.
const (
	Approved Status = "approved" // the definition is the one that was approved
	Changed  Status = "changed"  // another definition was approved under this name
	New      Status = "new"      // nothing was approved under this name
)

// Pins are approved definitions. They are immutable and safe for concurrent use;
// With and Without return modified copies.
type Pins struct {
	upstreams map[string]definitions
}

type definitions struct {
	at       time.Time // when the pins last changed
	approved map[item]Definition
}

type item struct {
	kind Kind
	name string
}

// Has reports whether an upstream was ever pinned, even with an empty list.
func (p *Pins) Has(name string) bool {
	_, ok := p.upstreams[name]
	return ok
}

// Status compares a definition with its pin.
func (p *Pins) Status(s Subject, d Digest) Status {
	pinned, ok := p.Approved(s)
	switch {
	case !ok:
		return New
	case pinned.Digest == d:
		return Approved
	}
	return Changed
}

// Approved returns the definition that was approved.
func (p *Pins) Approved(s Subject) (Definition, bool) {
	d, ok := p.upstreams[s.Upstream].approved[item{s.Kind, s.Name}]
	return d, ok
}

// Subjects returns the approved subjects of an upstream, in no particular order.
func (p *Pins) Subjects(name string) []Subject {
	var out []Subject
	for it := range p.upstreams[name].approved {
		out = append(out, Subject{name, it.kind, it.name})
	}
	return out
}

// Pin is an approved definition of a subject.
type Pin struct {
	Subject    Subject
	Definition Definition
}

// With returns the pins with an upstream pinned at a time, and with more approved
// definitions of it; each replaces the pin of the same subject. Pins of other
// upstreams are ignored.
func (p *Pins) With(name string, at time.Time, approved ...Pin) *Pins {
	u := definitions{at: at.UTC().Truncate(time.Second), approved: maps.Clone(p.upstreams[name].approved)}
	if u.approved == nil {
		u.approved = make(map[item]Definition, len(approved))
	}
	for _, a := range approved {
		if a.Subject.Upstream == name {
			u.approved[item{a.Subject.Kind, a.Subject.Name}] = a.Definition
		}
	}
	return p.replace(name, u)
}

// Without returns the pins without some subjects of an upstream, which stays
// pinned: definitions listed under these names later are new.
func (p *Pins) Without(name string, at time.Time, gone ...Subject) *Pins {
	if !p.Has(name) {
		return p
	}
	u := definitions{at: at.UTC().Truncate(time.Second), approved: maps.Clone(p.upstreams[name].approved)}
	for _, s := range gone {
		if s.Upstream == name {
			delete(u.approved, item{s.Kind, s.Name})
		}
	}
	return p.replace(name, u)
}

func (p *Pins) replace(name string, u definitions) *Pins {
	all := maps.Clone(p.upstreams)
	if all == nil {
		all = map[string]definitions{}
	}
	all[name] = u
	return &Pins{upstreams: all}
}
