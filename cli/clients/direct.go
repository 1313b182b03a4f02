package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Direct returns the servers in the client's file that the client reaches past the gateway s: all
// that are enabled, but for the gateway itself. name is the file's name for messages. A file in
// which nothing is read has none.
func (c *Client) Direct(name string, file []byte, s *Server) (direct []*Found) {
	form := MCPJSON
	if c.container == "" {
		form = Codex
	}
	read, err := Read(name, file, form)
	if err != nil {
		return nil
	}
	for _, f := range read.Servers {
		if f.URL != s.URL && !isOwnBridge(f.Command) && !f.disabled && f.Refused != refusedOwn {
			direct = append(direct, f)
		}
	}
	return direct
}

// Upstream is a server behind the gateway: one of both is set.
type Upstream struct {
	URL     string
	Command []string
}

// Behind reports whether one of the upstreams is the server: the same command with the same
// arguments, or the same URL, after references to variables are replaced. The name says nothing: two
// servers may have one name. A reference to a variable that is not set matches nothing.
func (s *Found) Behind(upstreams []Upstream, getenv func(string) (string, bool)) bool {
	known := true
	expand := func(text string) string {
		return placeholders.ReplaceAllStringFunc(text, func(ref string) string {
			m := placeholders.FindStringSubmatch(ref)
			if v, ok := getenv(m[1] + m[3] + m[4]); ok && !strings.HasPrefix(ref, "${input:") {
				return v
			}
			known = known && m[2] != ""
			return m[2]
		})
	}
	address := sameForm(expand(s.URL))
	command := make([]string, len(s.Command))
	for i := range command {
		command[i] = expand(s.Command[i])
	}
	return known && slices.ContainsFunc(upstreams, func(u Upstream) bool {
		if s.URL != "" {
			return u.URL != "" && sameForm(u.URL) == address
		}
		return len(command) > 0 && slices.Equal(u.Command, command)
	})
}

// sameForm writes a URL so that two texts of one URL are equal.
func sameForm(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	u.Scheme, u.Host, u.Fragment = strings.ToLower(u.Scheme), strings.ToLower(u.Host), ""
	if port := u.Port(); port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String()
}

// Remove returns the client's file without a server of its own list of servers; the rest of the file
// is not changed. ok is false if the server is in another list.
func (c *Client) Remove(file []byte, s *Found) (without []byte, ok bool, err error) {
	container := c.container
	if container == "" {
		container = codexTable
	}
	if !strings.HasSuffix(s.From, ", "+container+"."+s.Name) {
		return file, false, nil
	}
	if c.container == "" {
		without, err = removeTOML(file, s.Name)
	} else {
		without, err = removeMember(file, c.container, s.Name)
	}
	return without, err == nil, err
}

// removeMember removes container.name from a JSON file, with its comma, and the lines that become
// empty.
func removeMember(file []byte, container, name string) ([]byte, error) {
	root, _, want, err := parseObject(file)
	if err != nil {
		return nil, err
	}
	list, err := root.member(container)
	if err != nil || list == nil {
		return nil, errors.Join(err, fmt.Errorf("it has no member %q", container))
	}
	if _, err := list.member(name); err != nil {
		return nil, err
	}
	servers, _ := want[container].(map[string]any)
	delete(servers, name)
	i := slices.Index(list.names, name)
	if i < 0 {
		return nil, fmt.Errorf("%s.%s is not there", container, name)
	}
	out := bytes.Clone(file)
	blank := func(from, to int) {
		for at := from; at < to; at++ {
			out[at] = 0
		}
	}
	blank(list.starts[i], list.values[i].end)
	switch {
	case list.commas[i] >= 0:
		blank(list.commas[i], list.commas[i]+1)
	case i > 0 && list.commas[i-1] >= 0:
		blank(list.commas[i-1], list.commas[i-1]+1)
	}
	out = dropBlanked(out)
	return out, checkMerged(out, want)
}

// dropBlanked removes the bytes 0, and the lines that had some and have nothing else but blanks.
func dropBlanked(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		kept := bytes.ReplaceAll(line, []byte{0}, nil)
		if len(kept) < len(line) && len(bytes.TrimSpace(kept)) == 0 {
			continue
		}
		out = append(out, kept...)
	}
	return out
}

// tableHeader matches the header of a table in TOML.
var tableHeader = regexp.MustCompile(`^\s*\[`)

// removeTOML removes the table of a server, and those below it.
func removeTOML(file []byte, name string) ([]byte, error) {
	want, err := parseTOML(file)
	if err != nil {
		return nil, err
	}
	servers, _ := want[codexTable].(map[string]any)
	delete(servers, name)
	own := regexp.MustCompile(`^\s*\[\s*` + codexTable + `\s*\.\s*["']?` + regexp.QuoteMeta(name) + `["']?\s*[.\]]`)
	var out []byte
	inside := false
	for line := range bytes.Lines(file) {
		if tableHeader.Match(line) {
			inside = own.Match(line)
		}
		if !inside {
			out = append(out, line...)
		}
	}
	got, err := parseTOML(out)
	if err != nil || !sameTOML(got, want) {
		return nil, fmt.Errorf("the table %s.%s is written in a form that cannot be removed: remove it by hand", codexTable, name)
	}
	return out, nil
}

// sameTOML compares two documents; a table of servers without any is as good as none.
func sameTOML(a, b map[string]any) bool {
	for _, doc := range []map[string]any{a, b} {
		if servers, ok := doc[codexTable].(map[string]any); ok && len(servers) == 0 {
			delete(doc, codexTable)
		}
	}
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}
