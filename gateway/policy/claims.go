package policy

import "slices"

// claimRule holds the compiled conditions on an identity.
type claimRule struct {
	groups                        []string
	groupsIn, scopesIn, subjectIn set
}

// newClaimRule compiles a claims block. It returns nil for a block without conditions
// (decision MSG22).
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
// block; every caller meets an empty block.
func (c *ClaimsConfig) Matcher() func(*Claims) bool {
	if r := newClaimRule(c); r != nil {
		return r.match
	}
	return func(*Claims) bool { return true }
}

// match reports whether the caller meets all conditions. A caller without a verified
// identity never matches.
func (r *claimRule) match(c *Claims) bool {
	if c == nil {
		return false
	}
	if len(r.subjectIn.list) > 0 && !r.subjectIn.has(c.Subject) ||
		len(r.groupsIn.list) > 0 && !r.groupsIn.hasAny(c.Groups) ||
		len(r.scopesIn.list) > 0 && !r.scopesIn.hasAny(c.Scopes) {
		return false
	}
	for _, g := range r.groups {
		if !slices.Contains(c.Groups, g) {
			return false
		}
	}
	return true
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
