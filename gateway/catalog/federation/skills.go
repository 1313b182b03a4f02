package federation

import (
	"context"
	"encoding/json"
	"slices"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// routedExtensions are the extensions of upstreams that clients of the gateway can use. Others are not
// declared: their messages would reach default_upstream alone.
var routedExtensions = []string{mcp.ExtensionTasks, mcp.ExtensionSkills, mcp.ExtensionUI}

// UnroutedExtensions returns the extensions in the capabilities of an upstream that the federation does
// not declare to clients.
func UnroutedExtensions(capabilities json.RawMessage) (names []string) {
	var all struct{ Extensions map[string]json.RawMessage }
	_ = json.Unmarshal(capabilities, &all) // anything else declares nothing
	for name := range all.Extensions {
		if !slices.Contains(routedExtensions, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// skillsExtension is the declaration of skills by an upstream, or by the gateway.
type skillsExtension struct {
	Declared      bool
	DirectoryRead bool
}

// serves reports whether the declaration includes a method of the extension.
func (s skillsExtension) serves(method string) bool {
	return s.Declared && (method != mcp.MethodDirectoryRead || s.DirectoryRead)
}

// skills returns the last declaration of an upstream.
func (d *declarations) skills(upstream string) (s skillsExtension) {
	var extensions map[string]json.RawMessage
	_ = json.Unmarshal(d.of(upstream)["extensions"], &extensions)
	return skillsOf(extensions[mcp.ExtensionSkills])
}

// skillsOf reads a declaration. Settings that are not understood are as if they were missing.
func skillsOf(settings json.RawMessage) (s skillsExtension) {
	var members map[string]json.RawMessage
	s.Declared = json.Unmarshal(settings, &members) == nil && members != nil
	s.DirectoryRead = s.Declared && string(members["directoryRead"]) == "true"
	return s
}

// extensions returns the extensions of an upstream that are declared to the caller: those that it can
// use. They are a JSON object; nil for none.
func (a *answer) extensions(v *catalog.Shown, upstream string) json.RawMessage {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(a.declared.of(upstream)["extensions"], &all)
	kept := map[string]json.RawMessage{}
	for _, name := range routedExtensions {
		if settings, ok := all[name]; ok {
			kept[name] = settings
		}
	}
	if s := skillsOf(all[mcp.ExtensionSkills]); s.Declared && a.usesSkills(v, upstream) {
		kept[mcp.ExtensionSkills], _ = json.Marshal(s) // two booleans
	} else {
		delete(kept, mcp.ExtensionSkills)
	}
	if len(kept) == 0 {
		return nil
	}
	out, err := json.Marshal(kept)
	if err != nil { // an extension that is not JSON, although it was scanned
		return nil
	}
	return out
}

// MarshalJSON writes the declaration.
func (s skillsExtension) MarshalJSON() ([]byte, error) {
	if s.DirectoryRead {
		return []byte(`{"directoryRead":true}`), nil
	}
	return []byte(`{}`), nil
}

// usesSkills reports whether the caller may use a skill of an upstream: a listed one, or, if none is
// known, one that is not listed. That one has an address that no rule names in particular, because an
// empty one is unclear to rules with uri_prefix, and they would deny it.
func (a *answer) usesSkills(v *catalog.Shown, upstream string) bool {
	known := false
	for _, it := range v.Catalog.Items(mcp.Skill) {
		if it.Upstream != upstream {
			continue
		}
		if known = true; a.may(it) {
			return true
		}
	}
	return !known && a.mayAsk(mcp.Skill, upstream, a.Addresses().Visible(upstream, "skill://unlisted/SKILL.md"))
}

// needSkills reports whether the list of skills that an upstream has for the caller alone must be read to
// know whether it may use one.
func (a *answer) needSkills(v *catalog.Shown, upstream string) bool {
	return slices.Contains(v.Private[upstream], mcp.Skill) && a.declared.skills(upstream).Declared && !a.usesSkills(v, upstream)
}

// offersSkills reports whether the gateway declares a method of the extension to the caller.
func (a *answer) offersSkills(ctx context.Context, method string) bool {
	v := a.merge.For(ctx, a.caller)
	defer func() { v.End() }()
	offers := func(fd *catalog.Feed) bool {
		return catalog.ViewOf(a.caller).Has(fd.Name) && a.declared.skills(fd.Name).serves(method) && a.usesSkills(v, fd.Name)
	}
	if slices.ContainsFunc(a.feeds, offers) {
		return true
	}
	v.End()
	v = a.merge.For(ctx, a.caller, mcp.Skill)
	return slices.ContainsFunc(a.feeds, offers)
}

// skills responds to a request for skills: with the merged list, or with an error for one that no
// upstream has.
func (a *answer) skills(ctx context.Context) *upstream.Response {
	switch {
	case !a.offersSkills(ctx, a.m.Method):
		e := a.noRoute()
		e.Code, e.Detail = mcp.CodeMethodNotFound, "no server has the extension "+mcp.ExtensionSkills+" with this method"
		return a.absent(&e)
	case a.m.Method == mcp.MethodSkillsList:
		return a.list(ctx, mcp.Skill)
	}
	return a.unknown()
}
