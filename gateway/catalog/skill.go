package catalog

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"svc/gateway/mcp"
)

// Bounds on a skill that every host accepts.
const (
	maxSkillFiles = 512
	maxSkillBytes = 16 << 20 // of all files
)

// skillFile is the name of the file of a skill whose URI identifies the skill.
const skillFile = "/SKILL.md"

// SkillDirectory returns the directory of a skill, without a slash at its end. ok is false for a URI that
// is not the one of a skill.
func SkillDirectory(uri string) (directory string, ok bool) { return strings.CutSuffix(uri, skillFile) }

// SkillIn returns the URI of the skill in a directory.
func SkillIn(directory string) string { return directory + skillFile }

// skillKey is the key of the owner of a skill. An upstream owns all URIs below the directory of its
// skill, as those of a template.
func skillKey(uri string) ownerKey {
	directory, _ := SkillDirectory(uri)
	return ownerKey{mcp.Template, directory + "/{+path}"}
}

// CheckSkill returns why hosts must not load the skill of an entry, "" if they may. raw is one JSON value
// of a scanned message, and uri its URI.
func CheckSkill(raw []byte, uri string) (problem string) {
	directory, ok := SkillDirectory(uri)
	if !ok || !plainURI(uri) {
		return fmt.Sprintf("uri is not the absolute address of a file %s", skillFile[1:])
	}
	entry, problem := members(raw, mcp.Span{End: len(raw)}, "uri", "frontmatter", "resources")
	if problem != "" {
		return problem
	}
	front := entry["frontmatter"]
	if !front.Present() || raw[front.Start] != '{' {
		return "frontmatter is no object"
	}
	fields, problem := members(raw, front, "name", "description")
	if problem != "" {
		return "frontmatter: " + problem
	}
	name, _ := mcp.StringValue(fields["name"].Of(raw))
	description, _ := mcp.StringValue(fields["description"].Of(raw))
	switch {
	case !validSkillName(name):
		return "frontmatter.name is not 1 to 64 lower case letters, digits and single hyphens between them"
	case strings.TrimSpace(description) == "":
		return "frontmatter.description is missing"
	case !strings.HasSuffix(directory, "/"+name):
		return "frontmatter.name is not the name of the directory"
	}
	switch files := entry["resources"]; {
	case string(files.Of(raw)) == `"dynamic"`:
		return ""
	case files.Present() && raw[files.Start] == '[':
		return checkSkillFiles(raw, files, uri, directory)
	}
	return `resources is neither an array nor "dynamic"`
}

// checkSkillFiles checks the files of an entry.
func checkSkillFiles(raw []byte, list mcp.Span, uri, directory string) (problem string) {
	seen, total := map[string]bool{}, int64(0)
	for files := mcp.Elements(raw, list); files.Next(); {
		at := fmt.Sprintf("resources/%d", len(seen))
		if len(seen) == maxSkillFiles {
			return fmt.Sprintf("resources has over %d files", maxSkillFiles)
		}
		file, problem := members(raw, files.Value(), "uri", "digest", "size")
		if problem != "" {
			return at + ": " + problem
		}
		name, _ := mcp.StringValue(file["uri"].Of(raw))
		digest, _ := mcp.StringValue(file["digest"].Of(raw))
		size, err := strconv.ParseInt(string(file["size"].Of(raw)), 10, 64)
		total += max(size, 0)
		switch {
		case !strings.HasPrefix(name, directory+"/") || !plainURI(name):
			return at + "/uri is not an address below the directory of the skill"
		case seen[name]:
			return at + "/uri is listed twice"
		case !validDigest(digest):
			return at + "/digest is not sha256: and 64 lower case hexadecimal digits"
		case err != nil || size < 0:
			return at + "/size is no number of bytes"
		case size > maxSkillBytes || total > maxSkillBytes:
			return fmt.Sprintf("the files have over %d bytes", maxSkillBytes)
		}
		seen[name] = true
	}
	if !seen[uri] {
		return "resources does not list " + skillFile[1:]
	}
	return ""
}

// skillFiles returns the spans of the URIs of the files of an entry.
func skillFiles(raw []byte) (uris []mcp.Span) {
	list := mcp.Find(raw, mcp.Span{End: len(raw)}, "resources")
	if !list.Present() || raw[list.Start] != '[' {
		return nil
	}
	for files := mcp.Elements(raw, list); files.Next(); {
		uris = append(uris, mcp.Find(raw, files.Value(), "uri"))
	}
	return uris
}

// members returns the members of an object with some names. Parsers that ignore case would read other
// ones, so a name that differs only in case is a problem.
func members(raw []byte, at mcp.Span, names ...string) (found map[string]mcp.Span, problem string) {
	if raw[at.Start] != '{' {
		return nil, "is no object"
	}
	found = make(map[string]mcp.Span, len(names))
	for each := mcp.Members(raw, at); each.Next(); {
		got := string(each.Name())
		for _, name := range names {
			switch {
			case got == name:
				found[name] = each.Value()
			case strings.EqualFold(got, name):
				return nil, fmt.Sprintf("has a member %q beside %s", got, name)
			}
		}
	}
	return found, ""
}

// plainURI reports whether a URI has one reading: a scheme, and an address that all parsers take apart in
// the same way, without empty segments, and without braces, which would be an expression of a template.
func plainURI(uri string) bool {
	_, rest, ok := strings.Cut(uri, "://")
	if _, valid := head(uri); !ok || !valid || len(uri) > MaxKey || strings.ContainsAny(rest, "{}") || checkAddress(rest) != nil {
		return false
	}
	path := strings.TrimPrefix(rest, "/") // file:/// has no authority
	return path != "" && !strings.HasSuffix(path, "/") && !strings.Contains(path, "//")
}

// validSkillName reports whether a name is one of the Agent Skills specification.
func validSkillName(name string) bool {
	if name == "" || len(name) > 64 || name[0] == '-' || name[len(name)-1] == '-' || strings.Contains(name, "--") {
		return false
	}
	for _, c := range name {
		if c != '-' && (!unicode.IsLetter(c) && !unicode.IsDigit(c) || unicode.IsUpper(c)) {
			return false
		}
	}
	return true
}

// validDigest reports whether a digest has the form of the extension.
func validDigest(digest string) bool {
	hex, ok := strings.CutPrefix(digest, "sha256:")
	return ok && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}
