package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// containers are the members that list servers: of Claude Desktop, Claude Code, Cursor, Windsurf,
// Cline, Gemini CLI and LibreChat, of Visual Studio Code, of Amp, of Zed, and of Codex.
var containers = []string{"mcpServers", "servers", "mcp.servers", "amp.mcpServers", "context_servers", "mcp_servers"}

// takeClient reads the servers in the file of an MCP client. found is false if the file has no
// list of them.
func (f *Foreign) takeClient(root *entry) (found bool, err error) {
	for _, name := range containers {
		if list := root.get(name); list != nil {
			if err := f.takeServers(list, ""); err != nil {
				return false, err
			}
			found = true
		}
	}
	if mcp := root.get("mcp"); mcp.object() {
		if list := mcp.get("servers"); list.object() { // settings.json of Visual Studio Code
			if err := f.takeServers(list, ""); err != nil {
				return false, err
			}
			found = true
			noteInputs(mcp)
		}
		found = f.takeOpencode(mcp) || found
	}
	found = f.takeGoose(root.get("extensions")) || found
	found = f.takeProjects(root.get("projects")) || found
	noteInputs(root)
	if found {
		f.restrict(root)
	}
	return found, nil
}

// takeServers reads an object of servers by their names, or a list of servers with names
// (Continue). dir is the project that they belong to, if any.
func (f *Foreign) takeServers(list *entry, dir string) error {
	if !list.object() && !(list.list && len(list.values) > 0) {
		return fmt.Errorf("%s: it is not an object", list.path)
	}
	for i, e := range list.open() {
		s := &Found{From: f.file + ", " + e.path}
		if list.list {
			s.Name = e.get("name").text()
		} else {
			s.Name = list.names[i]
		}
		s.take(e)
		if dir != "" && s.Dir == "" && s.Command != nil {
			s.notef("its working directory, the project %s: set working_dir", dir)
		}
		f.Servers = append(f.Servers, s)
	}
	return nil
}

// takeProjects reads the servers of local scope of Claude Code, which belong to a directory.
func (f *Foreign) takeProjects(projects *entry) (found bool) {
	if !projects.object() {
		return false
	}
	for i, project := range projects.open() {
		list := project.get("mcpServers")
		if !list.object() {
			continue
		}
		found = true
		from := len(f.Servers)
		_ = f.takeServers(list, projects.names[i]) // it is an object
		f.refuse(f.Servers[from:], project.get("disabledMcpServers").texts(), "it is disabled in this project")
		for _, s := range f.Servers[from:] {
			if same := slices.IndexFunc(f.Servers[:from], s.sameAs); same >= 0 {
				s.Refused = "it is the same server as " + f.Servers[same].From
			}
		}
	}
	return found
}

// sameAs reports whether both start or reach the same, under one name.
func (s *Found) sameAs(o *Found) bool {
	return s.Name == o.Name && s.URL == o.URL && slices.Equal(s.Command, o.Command) && slices.Equal(s.Env, o.Env) && slices.Equal(s.Headers, o.Headers)
}

// takeOpencode reads the section mcp of opencode: servers with the type local or remote.
func (f *Foreign) takeOpencode(mcp *entry) (found bool) {
	for i, e := range mcp.open() {
		if typ := e.get("type"); typ != nil && (string(typ.raw) == `"local"` || string(typ.raw) == `"remote"`) {
			s := &Found{Name: mcp.names[i], From: f.file + ", " + e.path}
			s.take(e)
			f.Servers, found = append(f.Servers, s), true
		}
	}
	return found
}

// takeGoose reads the extensions of Goose, of which some are part of the program.
func (f *Foreign) takeGoose(extensions *entry) (found bool) {
	if !extensions.object() {
		return false
	}
	for i, e := range extensions.values {
		if e.get("type") == nil {
			continue
		}
		found = true
		s := &Found{Name: extensions.names[i], From: f.file + ", " + e.path}
		s.take(e)
		f.Servers = append(f.Servers, s)
	}
	if found {
		extensions.open()
	}
	return found
}

// restrict applies the lists of allowed and excluded servers of Gemini CLI.
func (f *Foreign) restrict(root *entry) {
	mcp := root.get("mcp")
	for _, e := range []*entry{mcp.get("excluded"), root.get("excludeMCPServers")} {
		f.refuse(f.Servers, e.texts(), "it is excluded there")
	}
	for _, e := range []*entry{mcp.get("allowed"), root.get("allowMCPServers")} {
		if e == nil {
			continue
		}
		allowed := e.texts()
		for _, s := range f.Servers {
			if s.Refused == "" && !slices.Contains(allowed, s.Name) {
				s.disabled = true
				s.Refused = "the list of allowed servers there (" + e.path + ") does not have it"
			}
		}
	}
}

// refuse refuses the servers with some names.
func (f *Foreign) refuse(servers []*Found, names []string, why string) {
	for _, s := range servers {
		if slices.Contains(names, s.Name) {
			s.Refused, s.disabled = why, true
		}
	}
}

// noteInputs counts the ids of inputs as read: references to them become variables.
func noteInputs(e *entry) {
	inputs := e.get("inputs")
	if inputs == nil || !inputs.list {
		return
	}
	for _, input := range inputs.open() {
		for _, name := range []string{"id", "type", "description", "password"} {
			input.get(name).use()
		}
	}
}

// membersOf returns the members of an object in their order.
func membersOf(raw []byte) (names []string, values []json.RawMessage, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, errors.New("it is not an object")
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, nil, err
		}
		names, values = append(names, t.(string)), append(values, v)
	}
	return names, values, nil
}

// take imports one entry. Its members that are not read become notes.
func (s *Found) take(e *entry) {
	e.read = true // by name, below
	if !e.object() {
		s.Refused = "its entry is not an object"
		return
	}
	for i, name := range e.names {
		if problem := s.member(name, e.values[i]); problem != "" {
			s.Refused = problem
		}
	}
	s.boundNotes()
}

// boundNotes drops notes beyond those that a person reads.
func (s *Found) boundNotes() {
	if n := len(s.Notes); n > maxNamed {
		s.Notes = append(s.Notes[:maxNamed], fmt.Sprintf("%d more settings", n-maxNamed))
	}
}

// transports are the values of type, transport and source for servers that a gateway can reach.
var transports = []string{"", "http", "https", "stdio", "streamable-http", "streamable_http", "streamablehttp", "streamable", "local", "remote", "custom", "mcp"}

// member imports one member of an entry. It returns the reason when the server cannot
// be imported.
func (s *Found) member(name string, e *entry) (refused string) {
	// list reads a list of strings; another form would lose a restriction, so it is named.
	list := func() []string {
		names, ok := texts(e.raw)
		if !ok {
			s.notef("%s, which is not a list of strings", name)
		}
		return names
	}
	switch name {
	case "command", "cmd":
		return s.takeCommand(e)
	case "args":
		args, ok := texts(e.raw)
		if !ok {
			return "its args are not a list of strings"
		}
		s.Command = append(s.Command, args...)
	case "url", "serverUrl", "httpUrl", "endpoint", "uri":
		s.URL = e.text()
	case "type", "transport", "source":
		switch kind := strings.ToLower(e.text()); {
		case kind == "sse":
			return "it uses the transport of 2024-11-05 (SSE): give the URL of its Streamable HTTP endpoint"
		case !slices.Contains(transports, kind):
			return "it uses the transport " + kind + ", which a gateway does not support"
		}
	case "env", "envs", "environment":
		s.Env = append(s.Env, s.pairs(name, e)...)
	case "env_vars", "env_keys": // names of variables that the program inherits
		for _, variable := range list() {
			s.Env = append(s.Env, Pair{variable, "${" + variable + "}"})
		}
	case "headers", "http_headers", "static_headers":
		s.Headers = append(s.Headers, s.pairs(name, e)...)
	case "env_http_headers": // headers with the names of variables
		for _, p := range s.pairs(name, e) {
			s.Headers = append(s.Headers, Pair{p.Name, "${" + p.Value + "}"})
		}
	case "bearer_token_env_var":
		s.Headers = append(s.Headers, Pair{"Authorization", "Bearer ${" + e.text() + "}"})
	case "cwd", "working_dir", "workingDirectory":
		s.Dir = e.text()
	case "includeTools", "enabled_tools", "available_tools", "allowed_tools":
		s.Allow = list()
	case "excludeTools", "disabled_tools", "disabledTools", "disallowed_tools":
		s.Deny = list()
	case "disabled":
		if s.disabled = s.disabled || string(e.raw) == "true"; s.disabled {
			return "it is disabled there"
		}
	case "enabled":
		if s.disabled = s.disabled || string(e.raw) == "false"; s.disabled {
			return "it is disabled there"
		}
	default:
		s.notef("%s", e.outline(name, maxOutline))
	}
	return ""
}

// takeCommand imports a command: a string, a list with the arguments (opencode), or an object with
// path, args and env (Zed).
func (s *Found) takeCommand(e *entry) (refused string) {
	if words, ok := texts(e.raw); ok && len(words) > 0 {
		s.Command = append(words, s.Command...)
		return ""
	}
	if e.object() {
		for i, name := range e.names {
			member := name
			if name == "path" {
				member = "command"
			}
			if problem := s.member(member, e.values[i]); problem != "" {
				return problem
			}
		}
		return ""
	}
	var text string
	if json.Unmarshal(e.raw, &text) != nil || text == "" {
		return "its command is not a string"
	}
	s.Command = append([]string{text}, s.Command...)
	return ""
}

// spaced matches a program with arguments in one text; a path may have blanks.
var spaced = regexp.MustCompile(`^[^\s/\\]+\s+\S|\s-`)

func texts(raw json.RawMessage) ([]string, bool) {
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		return nil, false
	}
	return list, true
}

// pairs reads an object of strings, in its order. Another form is named.
func (s *Found) pairs(of string, e *entry) (list []Pair) {
	names, values, err := membersOf(e.raw)
	if err != nil {
		if string(e.raw) != "null" {
			s.notef("%s, which is not an object", of)
		}
		return nil
	}
	seen := make(map[string]bool, len(names))
	for i := range names {
		var text string
		if json.Unmarshal(values[i], &text) != nil {
			text = string(values[i]) // a number or a boolean
		}
		if string(values[i]) != "null" && !seen[names[i]] {
			seen[names[i]] = true
			list = append(list, Pair{names[i], text})
		}
	}
	return list
}
