package policy

import (
	"slices"
	"strings"
)

// claimRule holds the compiled conditions on an identity.
type claimRule struct {
	groups                        []string
	groupsIn, scopesIn, subjectIn set
}

// Unreadable are the claims of a token whose values are not all known: they have a form that cannot
// be read, or the token only refers to them.
type Unreadable uint8

// The claims that rules have conditions on.
const (
	UnreadableGroups Unreadable = 1 << iota
	UnreadableScopes
	UnreadableSubject
)

var unreadableNames = [...]string{"groups", "scopes", "subject"}

// Add adds the claim of a name: groups, scopes or subject. It reports whether there is one.
func (u *Unreadable) Add(name string) bool {
	i := slices.Index(unreadableNames[:], name)
	if i >= 0 {
		*u |= 1 << i
	}
	return i >= 0
}

// String returns the names of the claims.
func (u Unreadable) String() string {
	var names []string
	for i, name := range unreadableNames {
		if u>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// truth is the result of conditions on a caller; unknown if they depend on unreadable claims.
type truth uint8

const (
	no truth = iota
	unknown
	yes
)

// newClaimRule compiles a claims block. It returns nil for a block without conditions.
func newClaimRule(c *ClaimsConfig) *claimRule {
	if c.Empty() {
		return nil
	}
	return &claimRule{
		groups:    slices.Clone(c.Groups),
		groupsIn:  newSet(c.GroupsIn),
		scopesIn:  newSet(c.ScopesIn),
		subjectIn: newSet(c.SubjectIn),
	}
}

// Matcher returns a function that reports whether a caller meets the conditions of a
// block; every caller meets an empty block. grants is set for a block that permits something:
// a caller does not meet it with claims that cannot be read, and meets any other block.
func (c *ClaimsConfig) Matcher(grants bool) func(*Claims) bool {
	if r := newClaimRule(c); r != nil {
		return func(c *Claims) bool { return r.match(c, grants) }
	}
	return func(*Claims) bool { return true }
}

// match reports whether a rule or view with these conditions applies to the caller.
func (r *claimRule) match(c *Claims, grants bool) bool {
	t := r.met(c)
	return t == yes || t == unknown && !grants
}

// met reports whether the caller meets all conditions. A caller without a verified
// identity never does.
func (r *claimRule) met(c *Claims) truth {
	if c == nil {
		return no
	}
	var missing Unreadable
	if len(r.subjectIn.list) > 0 && !r.subjectIn.has(c.Subject) {
		missing |= UnreadableSubject
	}
	if len(r.groupsIn.list) > 0 && !r.groupsIn.hasAny(c.Groups) {
		missing |= UnreadableGroups
	}
	if len(r.scopesIn.list) > 0 && !r.scopesIn.hasAny(c.Scopes) {
		missing |= UnreadableScopes
	}
	for _, g := range r.groups {
		if !slices.Contains(c.Groups, g) {
			missing |= UnreadableGroups
			break
		}
	}
	switch {
	case missing == 0:
		return yes
	case missing&^c.Unreadable == 0:
		return unknown
	}
	return no
}

// set is a set of strings; a short set is a list.
type set struct {
	list []string
	long map[string]struct{}
}

const shortSet = 8

func newSet(list []string) set {
	s := set{list: slices.Clone(list)}
	if len(list) > shortSet {
		s.long = make(map[string]struct{}, len(list))
		for _, v := range list {
			s.long[v] = struct{}{}
		}
	}
	return s
}

func (s *set) has(v string) bool {
	if s.long == nil {
		return slices.Contains(s.list, v)
	}
	_, ok := s.long[v]
	return ok
}

func (s *set) hasAny(list []string) bool {
	for _, v := range list {
		if s.has(v) {
			return true
		}
	}
	return false
}
