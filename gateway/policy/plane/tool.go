package plane

// BlocksTool reports whether a policy blocks every call of a tool, whatever its arguments and whoever
// approves it. It is used to filter lists; [Set.Judge] decides about calls.
func (s *Set) BlocksTool(name string) bool {
	if s == nil {
		return false
	}
	for _, p := range s.sides[Request].policies {
		if p.Action == Block && p.Approval == nil && p.condition == toolName && p.matchesTool(name) {
			return true
		}
	}
	return false
}
