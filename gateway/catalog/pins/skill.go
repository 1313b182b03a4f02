package pins

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/mcp/match"
	"svc/gateway/upstream"
)

// skill is the part of a skill's entry that is pinned.
type skill struct {
	// URI is the address of SKILL.md.
	URI         string
	Frontmatter map[string]any
	// Files are sorted by address; nil if Dynamic.
	Files []SkillFile
	// Dynamic is set for a skill without digests, which is pinned by its frontmatter alone.
	Dynamic bool
}

// SkillFile is one file of a skill, with the digest and the size of its bytes.
type SkillFile struct {
	URI    string
	SHA256 Digest
	Size   int64
}

const (
	dynamicSkill = "dynamic" // in place of the files
	digestPrefix = "sha256:"
)

// readSkill reads an entry of skills/list or skills/get, or the definition of a pin. raw is one JSON value of
// a scanned message.
func readSkill(raw []byte) (*skill, error) {
	e := new(skill)
	e.URI = stringIn(raw, mcp.Span{End: len(raw)}, "uri")
	if problem := catalog.CheckSkill(raw, e.URI); problem != "" {
		return nil, fmt.Errorf("the entry is not that of a skill: %s", problem)
	}
	front, err := mcp.Value(mcp.Find(raw, mcp.Span{End: len(raw)}, "frontmatter").Of(raw))
	if err != nil {
		return nil, err
	}
	e.Frontmatter, _ = front.(map[string]any)
	files := mcp.Find(raw, mcp.Span{End: len(raw)}, "resources")
	if e.Dynamic = raw[files.Start] != '['; e.Dynamic {
		return e, nil
	}
	for it := mcp.Elements(raw, files); it.Next(); {
		f := SkillFile{URI: stringIn(raw, it.Value(), "uri")}
		if f.SHA256, err = parseDigest(strings.TrimPrefix(stringIn(raw, it.Value(), "digest"), digestPrefix)); err != nil {
			return nil, err
		}
		if f.Size, err = strconv.ParseInt(string(mcp.Find(raw, it.Value(), "size").Of(raw)), 10, 64); err != nil {
			return nil, err
		}
		e.Files = append(e.Files, f)
	}
	slices.SortFunc(e.Files, func(a, b SkillFile) int { return strings.Compare(a.URI, b.URI) })
	return e, nil
}

// stringIn returns a string member of an object at a span.
func stringIn(raw []byte, at mcp.Span, name string) string {
	text, _ := mcp.StringValue(mcp.Find(raw, at, name).Of(raw))
	return strings.Clone(text)
}

// definition returns the definition that is pinned: the entry without members that the specification does not
// define, with sorted files.
func (e *skill) definition() Definition {
	var resources any = dynamicSkill
	if !e.Dynamic {
		list := make([]any, len(e.Files))
		for i, f := range e.Files {
			list[i] = map[string]any{"uri": f.URI, "digest": digestPrefix + f.SHA256.String(), "size": json.Number(strconv.FormatInt(f.Size, 10))}
		}
		resources = list
	}
	return defined(map[string]any{"uri": e.URI, "frontmatter": e.Frontmatter, "resources": resources})
}

// file returns the file with an address.
func (e *skill) file(uri string) (f SkillFile, ok bool) {
	i, ok := slices.BinarySearchFunc(e.Files, uri, compareFile)
	if !ok {
		return f, false
	}
	return e.Files[i], true
}

func compareFile(f SkillFile, uri string) int { return strings.Compare(f.URI, uri) }

// holds reports whether content is the file.
func (f *SkillFile) holds(content []byte) bool {
	return int64(len(content)) == f.Size && sha256.Sum256(content) == f.SHA256
}

// skillIndex finds the approved skills of an upstream by the addresses of their files.
type skillIndex struct {
	at      map[string][]*skill // by the place of the directory
	longest int                 // of these places, in bytes
	named   []string            // the addresses of all known files, sorted
}

func indexSkills(approved map[item]Definition) *skillIndex {
	x := &skillIndex{at: map[string][]*skill{}}
	for it, d := range approved {
		if it.kind != Skill {
			continue
		}
		s, err := readSkill(d.JSON)
		if err != nil { // cannot happen: the definition was made of an entry
			continue
		}
		dir, _ := catalog.SkillDirectory(s.URI)
		dir = placeOf(dir)
		x.at[dir] = append(x.at[dir], s)
		x.longest = max(x.longest, len(dir))
		x.named = append(x.named, s.URI) // also of a skill without digests
		for _, f := range s.Files {
			x.named = append(x.named, f.URI)
		}
	}
	slices.Sort(x.named)
	return x
}

// around returns the approved skills whose directory is at an address or above it.
func (x *skillIndex) around(address string) (list []*skill) {
	place := placeOf(address)
	for end := len(place); end > 0; end = strings.LastIndexByte(place[:end], '/') {
		if end <= x.longest {
			list = append(list, x.at[place[:end]]...)
		}
	}
	return list
}

// isAbove reports whether an address is that of a directory above a file of an approved skill.
func (x *skillIndex) isAbove(dir string) bool {
	dir = strings.TrimRight(dir, "/") + "/"
	i, _ := slices.BinarySearch(x.named, dir)
	return i < len(x.named) && strings.HasPrefix(x.named[i], dir)
}

// maxUnescape bounds how often an address was escaped that is recognized.
const maxUnescape = 4

// placeOf returns the place to which an address leads for a server that reads it in any of the ways that are
// in use: without regard to case, with escapes, dot segments and backslashes resolved, and without user
// information, port, query and fragment. Two addresses of one file have one place; an address is only compared
// by its place where that withholds more.
func placeOf(address string) string {
	for range maxUnescape {
		address = match.Unescape(strings.Map(visible, address))
	}
	address = strings.ToLower(strings.ToUpper(strings.ReplaceAll(address, `\`, "/")))
	if i := strings.IndexAny(address, "?#"); i >= 0 {
		address = address[:i]
	}
	scheme, rest, ok := strings.Cut(address, ":")
	if !ok {
		return path.Clean("/" + address)
	}
	authority, below, _ := strings.Cut(strings.TrimLeft(rest, "/"), "/")
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	if host, port, ok := strings.Cut(authority, ":"); ok && strings.Trim(port, "0123456789") == "" {
		authority = host
	}
	return scheme + ":" + path.Clean("/"+authority+"/"+below)
}

// visible returns -1 for characters that parsers of addresses remove.
func visible(r rune) rune {
	if unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
		return -1
	}
	return r
}

// skillScheme is how the places of addresses begin that have the scheme of skills.
const skillScheme = "skill:/"

// standing is what the pins of an upstream's skills mean for an address.
type standing uint8

const (
	outside  standing = iota // not of a skill
	named                    // a file of approved skills
	dynamic                  // below an approved skill without digests
	withheld                 // of a skill, and not approved
)

// stands returns the standing of an address, and the approved files with this address: every skill around it
// that has digests must name it. The address is that of the upstream.
func (u *guarded) stands(p *Pins, c *upstream.Caller, address string) (is standing, files []SkillFile) {
	for _, s := range p.skillsOf(u.name).around(address) {
		if s.Dynamic {
			subject := Subject{u.name, Skill, s.URI}
			if d, shown := u.shown(c, subject); shown && p.Status(subject, d) != Approved {
				return withheld, nil
			}
			is = max(is, dynamic)
			continue
		}
		f, ok := s.file(address)
		if !ok {
			return withheld, nil
		}
		files = append(files, f)
	}
	switch {
	case len(files) > 0:
		return named, files
	case is == dynamic:
		return dynamic, nil
	case strings.HasPrefix(placeOf(address), skillScheme):
		return withheld, nil
	}
	for end := len(address); end > 0; end = strings.LastIndexByte(address[:end], '/') {
		if end > catalog.MaxKey {
			continue
		}
		if _, shown := u.shown(c, Subject{u.name, Skill, catalog.SkillIn(address[:end])}); shown {
			return withheld, nil
		}
	}
	return outside, nil
}

// skillsOf returns the index of the approved skills of an upstream.
func (p *Pins) skillsOf(name string) *skillIndex {
	if d, ok := p.sets[set{name, true}]; ok {
		return d.skills()
	}
	return new(skillIndex)
}
