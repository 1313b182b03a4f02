package mcp

// ListKind is a kind of item that upstreams list.
type ListKind uint8

// The kinds.
const (
	Tool ListKind = iota
	Prompt
	Resource
	Template
	Skill

	// NumListKinds is the number of kinds.
	NumListKinds = iota
)

// ListKinds are all kinds, in the order of their values.
var ListKinds = [NumListKinds]ListKind{Tool, Prompt, Resource, Template, Skill}

// kindFacts has the protocol's names for each kind.
var kindFacts = [NumListKinds]struct {
	name   string // name in files and logs
	method string // method that lists the kind
	list   string // member of the result that has the list
	key    string // member of an item that identifies it in requests
	named  bool   // the key is a name, which gets the upstream's prefix
}{
	Tool:     {"tool", MethodToolsList, "tools", "name", true},
	Prompt:   {"prompt", MethodPromptsList, "prompts", "name", true},
	Resource: {"resource", MethodResourcesList, "resources", "uri", false},
	Template: {"template", MethodResourceTemplatesList, "resourceTemplates", "uriTemplate", false},
	Skill:    {"skill", MethodSkillsList, "skills", "uri", false},
}

// String returns the kind in lower case.
func (k ListKind) String() string { return kindFacts[k].name }

// Method returns the method that lists the kind.
func (k ListKind) Method() string { return kindFacts[k].method }

// Member returns the member of a result that has the list.
func (k ListKind) Member() string { return kindFacts[k].list }

// Key returns the member of an item that identifies it in requests.
func (k ListKind) Key() string { return kindFacts[k].key }

// Named reports whether the key is a name, which gets the prefix of its upstream.
func (k ListKind) Named() bool { return kindFacts[k].named }

// ListKindOf returns the kind that a method lists.
func ListKindOf(method string) (ListKind, bool) {
	for _, k := range ListKinds {
		if kindFacts[k].method == method {
			return k, true
		}
	}
	return 0, false
}

// ParseListKind parses the result of String.
func ParseListKind(s string) (ListKind, bool) {
	for _, k := range ListKinds {
		if kindFacts[k].name == s {
			return k, true
		}
	}
	return 0, false
}
