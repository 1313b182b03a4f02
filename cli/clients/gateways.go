package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// readYAML reads a YAML file: the configuration of another gateway or of a client.
func (f *Foreign) readYAML(text []byte, form string) error {
	var node yaml.Node
	var doc map[string]any
	err := yaml.Unmarshal(text, &node)
	if err == nil && tooWide(&node) {
		return fmt.Errorf("it has a map with more than %d keys", maxKeys)
	}
	if err == nil {
		err = node.Decode(&doc)
	}
	if wrong := (*yaml.TypeError)(nil); errors.As(err, &wrong) { // its text has a part of the file, which may be a key that was named by mistake
		return errors.New("it is neither JSON nor YAML: it is no map")
	}
	if err != nil {
		return errors.New("it is neither JSON nor YAML: " + strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return f.readValue(doc, form)
}

// maxKeys bounds the keys of one map in YAML, whose decoder compares each with each.
const maxKeys = 5000

func tooWide(n *yaml.Node) bool {
	return n.Kind == yaml.MappingNode && len(n.Content) > 2*maxKeys || slices.ContainsFunc(n.Content, tooWide)
}

// readTOML reads the file of Codex.
func (f *Foreign) readTOML(text []byte) error {
	doc, err := parseTOML(text)
	if err != nil {
		return err
	}
	return f.readValue(doc, Codex)
}

// readValue reads a document that has no order of its own.
func (f *Foreign) readValue(doc map[string]any, form string) error {
	raw, err := json.Marshal(doc)
	if err != nil {
		return errors.New("it has a key that is not a string")
	}
	root, err := parseEntry(raw)
	if err != nil {
		return err
	}
	return f.readEntry(root, form)
}

// readEntry reads the servers in a document, by the form or by what it has.
func (f *Foreign) readEntry(root *entry, form string) error {
	defer func() { f.Unread = root.unread() }()
	if list := root.get("mcp_servers"); list.object() && form != AgentGateway && form != Codex && form != MCPJSON {
		f.takeLiteLLM(list)
		return nil
	}
	if form == Auto || form == MCPJSON || form == Codex {
		if found, err := f.takeClient(root); found || err != nil {
			return err
		}
	}
	if form == Auto || form == AgentGateway {
		if f.takeTargets(root, 0); len(f.Servers) > 0 {
			return nil
		}
	}
	return errors.New("it lists no MCP servers: expected mcpServers, servers, mcp_servers, context_servers, extensions, mcp, or the targets of agentgateway")
}

// takeLiteLLM reads the section mcp_servers.
func (f *Foreign) takeLiteLLM(section *entry) {
	for i, e := range section.open() {
		s := &Found{Name: section.names[i], From: f.file + ", " + e.path}
		f.Servers = append(f.Servers, s)
		e.read = true
		if !e.object() {
			s.Refused = "its entry is not a map"
			continue
		}
		auth, value := e.get("auth_type").text(), e.get("auth_value").text()
		if value == "" {
			value = e.get("authentication_token").text()
		}
		for i, key := range e.names {
			switch key {
			case "auth_type", "auth_value", "authentication_token":
			default:
				if problem := s.member(key, e.values[i]); problem != "" {
					s.Refused = problem
				}
			}
		}
		s.boundNotes()
		s.authenticate(auth, value)
	}
}

// authenticate converts the credential of LiteLLM to the header in which it is
// sent.
func (s *Found) authenticate(kind, value string) {
	switch kind {
	case "", "none":
		return
	case "api_key":
		s.Headers = append(s.Headers, Pair{"X-API-Key", value})
	case "bearer_token":
		s.Headers = append(s.Headers, Pair{"Authorization", "Bearer " + value})
	case "basic":
		s.Headers = append(s.Headers, Pair{"Authorization", "Basic " + value})
	case "authorization":
		s.Headers = append(s.Headers, Pair{"Authorization", value})
	default:
		s.notef("auth_type %s: set headers, if the server requires a credential", kind)
		return
	}
	if value == "" {
		s.Headers = s.Headers[:len(s.Headers)-1]
		s.notef("auth_type %s has no value: set headers", kind)
	}
}

// takeTargets finds the targets of agentgateway at any position, because it depends on the version.
func (f *Foreign) takeTargets(e *entry, depth int) (found bool) {
	if depth > maxTargetDepth {
		return false
	}
	for i, child := range e.values {
		if e.object() && e.names[i] == "targets" && child.list {
			for _, target := range child.open() {
				f.takeTarget(target)
			}
			found = true
			continue
		}
		found = f.takeTargets(child, depth+1) || found
	}
	if found {
		e.open()
	}
	return found
}

// maxTargetDepth bounds the depth at which targets are looked for.
const maxTargetDepth = 50

// takeTarget imports one server: its kind is the member next to its name.
func (f *Foreign) takeTarget(e *entry) {
	if !e.object() {
		return
	}
	s := &Found{Name: e.get("name").text(), From: f.file + ", " + e.path}
	f.Servers = append(f.Servers, s)
	s.Refused = "its kind is unknown"
	e.read = true // by name, here
	for i, key := range e.names {
		body := e.values[i]
		switch key {
		case "name":
		case "stdio":
			s.Refused = ""
			for i, name := range body.names {
				if problem := s.member(name, body.values[i]); problem != "" {
					s.Refused = problem
				}
			}
		case "mcp":
			s.Refused = ""
			s.URL = targetURL(body)
			for i, name := range body.names {
				if !slices.Contains([]string{"host", "port", "path"}, name) {
					s.notef("%s", body.values[i].outline(key+"."+name, maxOutline))
				}
			}
		case "sse":
			s.Refused = "it uses the transport of 2024-11-05 (SSE): give the URL of its Streamable HTTP endpoint"
		case "openapi":
			s.Refused = "it generates tools from an OpenAPI document, which this gateway does not support"
		default:
			s.notef("%s", body.outline(key, maxOutline))
		}
	}
}

// targetURL returns the URL of a target: a URL in host, or made of host, port and
// path.
func targetURL(body *entry) string {
	host := body.get("host").text()
	if strings.Contains(host, "://") {
		return host
	}
	if host == "" {
		return ""
	}
	scheme := "http"
	if port := body.get("port").text(); port != "" {
		if port == "443" {
			scheme = "https"
		}
		host = net.JoinHostPort(host, port)
	}
	path := body.get("path").text()
	if path == "" {
		path = "/mcp"
	}
	return scheme + "://" + host + "/" + strings.TrimPrefix(path, "/")
}
