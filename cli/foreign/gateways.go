package foreign

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sort"
	"strings"

	"gopkg.in/yaml.v3"
)

// readYAML reads the configuration of another gateway.
func readYAML(name string, text []byte, form string) ([]*Server, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, errors.New("it is neither JSON nor YAML: " + strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if servers, ok := doc["mcp_servers"].(map[string]any); ok && form != AgentGateway {
		return readLiteLLM(name, servers), nil
	}
	if form != LiteLLM {
		w := agentWalk{file: name}
		w.visit(doc, "", 0)
		if len(w.servers) > 0 {
			return w.servers, nil
		}
	}
	return nil, errors.New("it lists no MCP servers: expected mcpServers, servers, mcp_servers, or the targets of agentgateway")
}

// readLiteLLM reads the section mcp_servers.
func readLiteLLM(file string, section map[string]any) (servers []*Server) {
	for _, name := range sorted(section) {
		s := &Server{Name: name, From: file + ", mcp_servers." + name}
		servers = append(servers, s)
		entry, ok := section[name].(map[string]any)
		if !ok {
			s.Refused = "its entry is not a map"
			continue
		}
		auth, value := text(entry["auth_type"]), text(entry["auth_value"])
		if value == "" {
			value = text(entry["authentication_token"])
		}
		for _, key := range sorted(entry) {
			switch key {
			case "url", "command", "args", "env", "transport":
				if problem := s.member(key, raw(entry[key])); problem != "" {
					s.Refused = problem
				}
			case "static_headers", "headers":
				s.Headers = append(s.Headers, pairs(raw(entry[key]))...)
			case "allowed_tools":
				s.Allow, _ = texts(raw(entry[key]))
			case "disallowed_tools":
				s.Deny, _ = texts(raw(entry[key]))
			case "auth_type", "auth_value", "authentication_token", "description", "spec_version", "mcp_info":
			default:
				s.notef("%s", key)
			}
		}
		s.authenticate(auth, value)
	}
	return servers
}

// authenticate converts the credential of LiteLLM to the header in which it is
// sent.
func (s *Server) authenticate(kind, value string) {
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

// agentWalk finds the targets of agentgateway at any position, because it depends
// on the version.
type agentWalk struct {
	file    string
	servers []*Server
}

func (w *agentWalk) visit(v any, path string, depth int) {
	if depth > 50 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range sorted(v) {
			at := strings.TrimPrefix(path+"."+key, ".")
			if list, ok := v[key].([]any); ok && key == "targets" {
				for i, target := range list {
					w.target(target, fmt.Sprintf("%s[%d]", at, i))
				}
				continue
			}
			w.visit(v[key], at, depth+1)
		}
	case []any:
		for i := range v {
			w.visit(v[i], fmt.Sprintf("%s[%d]", path, i), depth+1)
		}
	}
}

// target imports one server: its kind is the member next to its name.
func (w *agentWalk) target(v any, at string) {
	entry, ok := v.(map[string]any)
	if !ok {
		return
	}
	s := &Server{Name: text(entry["name"]), From: w.file + ", " + at}
	w.servers = append(w.servers, s)
	s.Refused = "its kind is unknown"
	for _, key := range sorted(entry) {
		body, _ := entry[key].(map[string]any)
		switch key {
		case "name":
		case "stdio":
			s.Refused = ""
			if args, ok := texts(raw(body["args"])); ok {
				s.Command = append([]string{text(body["cmd"])}, args...)
			} else {
				s.Command = []string{text(body["cmd"])}
			}
			s.Env = pairs(raw(body["env"]))
		case "mcp":
			s.Refused = ""
			s.URL = targetURL(body)
		case "sse":
			s.Refused = "it uses the transport of 2024-11-05 (SSE): give the URL of its Streamable HTTP endpoint"
		case "openapi":
			s.Refused = "it generates tools from an OpenAPI document, which this gateway does not support"
		default:
			s.notef("%s", key)
		}
	}
}

// targetURL returns the URL of a target: a URL in host, or made of host, port and
// path.
func targetURL(body map[string]any) string {
	host := text(body["host"])
	if strings.Contains(host, "://") {
		return host
	}
	if host == "" {
		return ""
	}
	scheme := "http"
	if port := text(body["port"]); port != "" {
		if port == "443" {
			scheme = "https"
		}
		host = net.JoinHostPort(host, port)
	}
	path := text(body["path"])
	if path == "" {
		path = "/mcp"
	}
	return scheme + "://" + host + "/" + strings.TrimPrefix(path, "/")
}

func sorted(m map[string]any) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// text returns a scalar as written; empty for anything else.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int, float64, bool:
		return fmt.Sprint(v)
	}
	return ""
}

// raw returns a value as JSON.
func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}
