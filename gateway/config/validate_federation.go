package config

import (
	"strings"

	"svc/gateway/base/diag"
	"svc/gateway/catalog/federation"
	"svc/gateway/upstream"
)

// validateFederation checks the section, and the keys of upstreams that need it.
func (f *File) validateFederation(at diag.At) {
	f.Federation.Validate(at.Field("federation"))
	f.validatePerCaller(at)
	names := make([]string, 0, len(f.Upstreams)+1)
	for i := range f.Upstreams {
		names = append(names, f.Upstreams[i].Name)
	}
	if f.Federation.Enabled {
		names = append(names, federation.Name)
	}
	f.Policy.CheckUpstreams(at.Field("policy"), names)
	f.DataFlow.CheckUpstreams(at.Field("data_flow"), names)
	f.validateViews(at.Field("views"))
	for i := range f.Upstreams {
		u, here := &f.Upstreams[i], at.Field("upstreams").Index(i)
		if !f.Federation.Enabled {
			for _, key := range needingFederation(u) {
				here.Field(key).Hint("set federation: {enabled: true}, or remove the key").
					Errorf("needs-federation", "has no effect without federation")
			}
		}
		// Each upstream by itself, so that a finding has its position.
		naming := federation.NamingOf(u)
		if err := naming.Check(); err != nil {
			at := here
			if err.Tools {
				at = at.Field("tools")
			}
			at.Field(err.Field).Errorf("naming", "%s", err.Err)
		}
		if f.Federation.Enabled && u.Name == federation.Name {
			here.Field("name").Hint("give it another name").
				Errorf("reserved", "%q is the name of the gateway itself with federation", u.Name)
		}
		for j := range i {
			if other := &f.Upstreams[j]; u.Prefix != "" && other.Prefix == u.Prefix {
				here.Field("prefix").Hint("give each upstream a prefix of its own").
					Errorf("duplicate", "%q is the prefix of upstreams[%d] already", u.Prefix, j)
				break
			}
		}
	}
}

// validateViews checks the views.
func (f *File) validateViews(at diag.At) {
	if len(f.Views) > 0 && !f.Federation.Enabled {
		at.Hint("set federation: {enabled: true}, or remove the key").
			Errorf("needs-federation", "has no effect without federation")
	}
	known := make([]string, len(f.Upstreams))
	for i := range f.Upstreams {
		known[i] = f.Upstreams[i].Name
	}
	for i := range f.Views {
		f.Views[i].Validate(at.Index(i), known)
		for j := range i {
			if f.Views[i].Name != "" && strings.EqualFold(f.Views[i].Name, f.Views[j].Name) {
				at.Index(i).Field("name").Hint("give each view a name of its own").
					Errorf("duplicate", "%q is the name of views[%d] already, but for its case", f.Views[i].Name, j)
			}
		}
	}
}

// validatePerCaller checks the requirements of upstreams that accept only tokens of callers.
func (f *File) validatePerCaller(at diag.At) {
	for i := range f.Upstreams {
		section := f.Upstreams[i].Credentials.PerCaller()
		if section == "" {
			continue
		}
		at := at.Field("upstreams").Index(i).Field("credentials").Field(section)
		if !f.Auth.Enabled || !f.Auth.OAuth.Enabled {
			at.Hint("set auth.oauth, by which callers are identified").
				Errorf("needs-oauth", "no caller has a token that could be exchanged: auth.oauth is not enabled")
		}
		if f.ToolSearch.Enabled && f.ToolSearch.Mode == ToolSearchSynthesize && !f.Federation.Enabled {
			at.Hint("set tool_search.mode to %s", ToolSearchPassthrough).
				Errorf("per-caller-lists", "tool_search reads the tools of all upstreams without a caller's token, which this one does not answer")
		}
	}
}

// needingFederation returns the keys of an upstream that need federation.
func needingFederation(u *upstream.Config) (keys []string) {
	if u.SharedLists {
		keys = append(keys, "shared_lists")
	}
	return keys
}
