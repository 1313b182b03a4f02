package catalog

import "svc/gateway/mcp"

// Kind is a kind of item that upstreams list.
type Kind uint8

// The kinds.
const (
	Tool Kind = iota
	Prompt
	Resource
	Template

	numKinds = iota
)

// Kinds are all kinds, in the order of their values.
var Kinds = [numKinds]Kind{Tool, Prompt, Resource, Template}

// kindFacts has the protocol's names for each kind.
var kindFacts = [numKinds]struct {
	name   string // name in files and logs
	method string // method that lists the kind
	list   string // member of the result that has the list
	key    string // member of an item that identifies it in requests
	named  bool   // the key is a name, which gets the upstream's prefix
}{
	Tool:     {"tool", mcp.MethodToolsList, "tools", "name", true},
	Prompt:   {"prompt", mcp.MethodPromptsList, "prompts", "name", true},
	Resource: {"resource", mcp.MethodResourcesList, "resources", "uri", false},
	Template: {"template", mcp.MethodResourceTemplatesList, "resourceTemplates", "uriTemplate", false},
}

// String returns the kind in lower case.
func (k Kind) String() string { return kindFacts[k].name }

// Method returns the method that lists the kind.
func (k Kind) Method() string { return kindFacts[k].method }

// Member returns the member of a result that has the list.
func (k Kind) Member() string { return kindFacts[k].list }

// KindOf returns the kind that a method lists.
func KindOf(method string) (Kind, bool) {
	for _, k := range Kinds {
		if kindFacts[k].method == method {
			return k, true
		}
	}
	return 0, false
}

// parseKind parses the result of String.
func parseKind(s string) (Kind, bool) {
	for _, k := range Kinds {
		if kindFacts[k].name == s {
			return k, true
		}
	}
	return 0, false
}
