package pins

import (
	"maps"
	"sync"
	"time"

	"svc/gateway/mcp"
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
// With returns a modified copy.
type Pins struct {
	sets map[set]definitions
}

// set is what is approved together when an upstream lists it first: its skills, or everything
// else.
type set struct {
	upstream string
	skills   bool
}

func setOf(upstream string, of Kind) set { return set{upstream, of == Skill} }

type definitions struct {
	at       time.Time // when the pins last changed
	approved map[item]Definition
	// skills returns the index of the approved skills, which is built once.
	skills func() *skillIndex
}

func newDefinitions(at time.Time, approved map[item]Definition) definitions {
	return definitions{at, approved, sync.OnceValue(func() *skillIndex { return indexSkills(approved) })}
}

type item struct {
	kind Kind
	name string
}

// Has reports whether the skills of an upstream were ever pinned, even with an empty list, or for
// another kind everything but its skills.
func (p *Pins) Has(name string, of Kind) bool {
	_, ok := p.sets[setOf(name, of)]
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
	d, ok := p.sets[setOf(s.Upstream, s.Kind)].approved[item{s.Kind, s.Name}]
	return d, ok
}

// Subjects returns the approved subjects of an upstream, in no particular order.
func (p *Pins) Subjects(name string) []Subject {
	var out []Subject
	for _, of := range [...]Kind{Tool, Skill} {
		for it := range p.sets[setOf(name, of)].approved {
			out = append(out, Subject{name, it.kind, it.name})
		}
	}
	return out
}

// Pin is an approved definition of a subject.
type Pin struct {
	Subject    Subject
	Definition Definition
}

// Dynamic reports whether the pin is that of a skill without digests, which is not approved without an operator.
func (p *Pin) Dynamic() bool {
	form := p.Definition.JSON
	return p.Subject.Kind == Skill && string(mcp.Find(form, mcp.Span{End: len(form)}, "resources").Of(form)) == `"`+dynamicSkill+`"`
}

// With returns the pins with the skills of an upstream pinned at a time, or for another kind
// everything but its skills, and with more approved definitions of it; each replaces the pin of
// the same subject. Other pins are ignored.
func (p *Pins) With(name string, of Kind, at time.Time, approved ...Pin) *Pins {
	to := setOf(name, of)
	all := maps.Clone(p.sets[to].approved)
	if all == nil {
		all = make(map[item]Definition, len(approved))
	}
	for _, a := range approved {
		if setOf(a.Subject.Upstream, a.Subject.Kind) == to {
			all[item{a.Subject.Kind, a.Subject.Name}] = a.Definition
		}
	}
	sets := maps.Clone(p.sets)
	if sets == nil {
		sets = map[set]definitions{}
	}
	sets[to] = newDefinitions(at.UTC().Truncate(time.Second), all)
	return &Pins{sets}
}
