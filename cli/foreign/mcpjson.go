package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"svc/cli/clientfile"
)

// readMCPJSON reads the file of Claude Desktop, Claude Code, Cursor, Gemini CLI (member
// mcpServers) or Visual Studio Code (servers, with inputs).
func readMCPJSON(name string, text []byte) ([]*Server, error) {
	plain, err := clientfile.StrictJSON(text)
	if err != nil {
		return nil, err
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(plain, &doc); err != nil {
		return nil, errors.New("it is not a JSON object")
	}
	var servers []*Server
	found := false
	for _, container := range []string{"mcpServers", "servers"} {
		raw, ok := doc[container]
		if !ok {
			continue
		}
		found = true
		names, values, err := membersOf(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", container, err)
		}
		for i := range names {
			s := &Server{Name: names[i], From: fmt.Sprintf("%s, %s.%s", name, container, names[i])}
			s.takeJSON(values[i])
			servers = append(servers, s)
		}
	}
	if !found {
		return nil, errors.New("it has neither mcpServers nor servers")
	}
	return servers, nil
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

// takeJSON imports one entry.
func (s *Server) takeJSON(raw json.RawMessage) {
	names, values, err := membersOf(raw)
	if err != nil {
		s.Refused = "its entry is not an object"
		return
	}
	for i, name := range names {
		if problem := s.member(name, values[i]); problem != "" {
			s.Refused = problem
		}
	}
}

// member imports one member of an entry. It returns the reason when the server cannot
// be imported.
func (s *Server) member(name string, raw json.RawMessage) (refused string) {
	var text string
	_ = json.Unmarshal(raw, &text)
	switch name {
	case "command":
		if text == "" {
			return "its command is not a string"
		}
		s.Command = append([]string{text}, s.Command...)
	case "args":
		args, ok := texts(raw)
		if !ok {
			return "its args are not a list of strings"
		}
		s.Command = append(s.Command, args...)
	case "url", "serverUrl", "httpUrl", "endpoint":
		s.URL = text
	case "type", "transport":
		if strings.EqualFold(text, "sse") {
			return "it uses the transport of 2024-11-05 (SSE): give the URL of its Streamable HTTP endpoint"
		}
	case "env":
		s.Env = append(s.Env, pairs(raw)...)
	case "headers":
		s.Headers = append(s.Headers, pairs(raw)...)
	case "cwd":
		s.Dir = text
	case "includeTools":
		s.Allow, _ = texts(raw)
	case "excludeTools":
		s.Deny, _ = texts(raw)
	case "disabled":
		if string(raw) == "true" {
			return "it is disabled there"
		}
	case "enabled":
		if string(raw) == "false" {
			return "it is disabled there"
		}
	case "description", "gallery", "version", "id", "name":
		// settings of the other program only
	default:
		s.notef("%s", name)
	}
	return ""
}

func texts(raw json.RawMessage) ([]string, bool) {
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		return nil, false
	}
	return list, true
}

// pairs reads an object of strings, in its order.
func pairs(raw json.RawMessage) (list []Pair) {
	names, values, err := membersOf(raw)
	if err != nil {
		return nil
	}
	for i := range names {
		var text string
		if json.Unmarshal(values[i], &text) != nil {
			text = string(values[i]) // a number or a boolean
		}
		if string(values[i]) != "null" && !slices.ContainsFunc(list, func(p Pair) bool { return p.Name == names[i] }) {
			list = append(list, Pair{names[i], text})
		}
	}
	return list
}
