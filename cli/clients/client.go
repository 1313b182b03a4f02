package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
)

// Server describes the gateway for the configuration of a client.
type Server struct {
	// Name is the name of the entry at the client.
	Name string
	URL  string
	// KeyEnv is the environment variable from which the client reads the key.
	KeyEnv string
	// KeyFile is the file from which a program that the client starts reads the key;
	// empty when the client connects itself.
	KeyFile string
	// Key is written instead of a reference to KeyEnv when it is not empty.
	Key string
	// AskKey makes a client that can ask its user for the key do so.
	AskKey bool
	// Program is the path of svc, for clients that start it.
	Program string
}

// Place has the directories that the paths of files depend on.
type Place struct {
	GOOS, Home, AppData, CodexHome string
}

// Client is one kind of MCP client.
type Client struct {
	Name  string
	Title string
	// Path returns the client's configuration file; nil for code.
	Path func(Place) string
	// Also returns further files in which the client looks for servers; nil for none.
	Also func(Place) []string
	// Restart is the text about when the client reads its file again.
	Restart string
	// snippet returns the text to paste.
	snippet func(*Server) ([]byte, error)
	// container is the member of a JSON file that has the servers; empty for TOML.
	container string
	entry     func(*Server) any
	// inputs returns the values that the client asks its user for, which are next to the
	// container.
	inputs func(*Server) any
}

// Clients are all clients, in the order in which they are listed.
func Clients() []Client {
	return []Client{
		{Name: "claude-code", Title: "Claude Code", container: "mcpServers", entry: claudeCode,
			Path: func(Place) string { return ".mcp.json" }, Also: func(p Place) []string { return []string{filepath.Join(p.Home, ".claude.json")} }, Restart: "Claude Code reads it when it starts in this directory; /mcp shows the state"},
		{Name: "claude-desktop", Title: "Claude Desktop", container: "mcpServers", entry: program,
			Path: claudeDesktopPath, Restart: "Quit Claude Desktop and start it again"},
		{Name: "cursor", Title: "Cursor", container: "mcpServers", entry: cursor,
			Path: func(p Place) string { return filepath.Join(p.Home, ".cursor", "mcp.json") }, Also: func(Place) []string { return []string{filepath.Join(".cursor", "mcp.json")} }, Restart: "Cursor shows the server under Settings, MCP"},
		{Name: "vscode", Title: "Visual Studio Code", container: "servers", entry: vsCode, inputs: vsCodeInputs,
			Path: func(Place) string { return filepath.Join(".vscode", "mcp.json") }, Restart: "Run the command 'MCP: List Servers' and start it"},
		{Name: "codex", Title: "Codex CLI", snippet: codex, entry: codexEntry,
			Path: codexPath, Restart: "Codex reads it when it starts; /mcp lists the servers"},
		{Name: "gemini", Title: "Gemini CLI", container: "mcpServers", entry: gemini,
			Path: func(p Place) string { return filepath.Join(p.Home, ".gemini", "settings.json") }, Also: func(Place) []string { return []string{filepath.Join(".gemini", "settings.json")} }, Restart: "Gemini CLI reads it when it starts; /mcp lists the servers"},
		{Name: "python", Title: "Python, package mcp", snippet: python},
		{Name: "typescript", Title: "TypeScript, package @modelcontextprotocol/client", snippet: typescript},
		{Name: "go", Title: "Go, module github.com/modelcontextprotocol/go-sdk", snippet: golang},
		{Name: "curl", Title: "curl in a shell", snippet: curl},
	}
}

// Find returns the client with a name.
func Find(name string) (Client, bool) {
	for _, c := range Clients() {
		if c.Name == name {
			return c, true
		}
	}
	return Client{}, false
}

// NeedsProgram reports whether the client only starts programs.
func (c *Client) NeedsProgram() bool { return c.Name == "claude-desktop" }

// Snippet returns the text to paste.
func (c *Client) Snippet(s *Server) ([]byte, error) {
	if c.snippet != nil {
		return c.snippet(s)
	}
	doc := members{{c.container, members{{s.Name, c.entry(s)}}}}
	if c.inputs != nil && c.inputs(s) != nil {
		doc = append(doc, member{"inputs", []any{c.inputs(s)}})
	}
	return indented(doc, "", "  ")
}

// Merge returns the client's file with the server added, and whether the file changes.
// The rest of the file is not changed by a single byte.
func (c *Client) Merge(file []byte, s *Server) (merged []byte, changed bool, err error) {
	if c.container == "" {
		return mergeTOML(file, s)
	}
	merged, err = setMember(file, c.container, s.Name, c.entry(s), s.wrote)
	if err != nil {
		return nil, false, err
	}
	if c.inputs != nil && c.inputs(s) != nil {
		if merged, err = addInput(merged, c.inputs(s).(members)); err != nil {
			return nil, false, err
		}
	}
	return merged, !bytes.Equal(merged, file), nil
}

func claudeDesktopPath(p Place) string {
	switch p.GOOS {
	case "darwin":
		return filepath.Join(p.Home, "Library", "Application Support", "Claude", "claude_desktop_config.json")
	case "windows":
		return filepath.Join(p.AppData, "Claude", "claude_desktop_config.json")
	}
	return filepath.Join(p.Home, ".config", "Claude", "claude_desktop_config.json")
}

func codexPath(p Place) string {
	if p.CodexHome != "" {
		return filepath.Join(p.CodexHome, "config.toml")
	}
	return filepath.Join(p.Home, ".codex", "config.toml")
}

// bearer returns the value of Authorization: with the key itself, or with the client's
// reference to an environment variable.
func (s *Server) bearer(reference string) string {
	if s.Key != "" {
		return "Bearer " + s.Key
	}
	return "Bearer " + fmt.Sprintf(reference, s.KeyEnv)
}

// program is an entry that starts svc connect --stdio. The key is read from a file, or
// from the environment that the client gives the program; it is never an argument.
func program(s *Server) any {
	args := []string{"connect", "--stdio", "--url", s.URL}
	if s.Key != "" {
		return members{{"command", s.Program}, {"args", append(args, "--key-env", s.KeyEnv)}, {"env", members{{s.KeyEnv, s.Key}}}}
	}
	return members{{"command", s.Program}, {"args", append(args, "--key-file", s.KeyFile)}}
}

// usesProgram reports whether the entry starts svc.
func (s *Server) usesProgram() bool { return s.KeyFile != "" && s.Key == "" }

// remote is an entry with a URL and a header, or one that starts svc.
func remote(s *Server, first members, url, reference string) any {
	if s.usesProgram() {
		return program(s)
	}
	return append(first, member{url, s.URL}, member{"headers", members{{"Authorization", s.bearer(reference)}}})
}

func claudeCode(s *Server) any { return remote(s, members{{"type", "http"}}, "url", "${%s}") }
func cursor(s *Server) any     { return remote(s, nil, "url", "${env:%s}") }
func gemini(s *Server) any     { return remote(s, nil, "httpUrl", "${%s}") }

// vsCodeInput is the id of the value that Visual Studio Code asks its user for and
// stores.
func vsCodeInput(s *Server) string { return s.Name + "-gateway-key" }

func vsCode(s *Server) any {
	reference := "${env:%s}"
	if s.AskKey {
		reference = "${input:" + vsCodeInput(s) + "}%.0s"
	}
	return remote(s, members{{"type", "http"}}, "url", reference)
}

func vsCodeInputs(s *Server) any {
	if s.usesProgram() || s.Key != "" || !s.AskKey {
		return nil
	}
	return members{{"type", "promptString"}, {"id", vsCodeInput(s)}, {"description", "API key of the gateway " + s.URL}, {"password", true}}
}

// members is a JSON object with ordered members.
type members []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (m members) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, it := range m {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := plainJSON(it.name)
		if err != nil {
			return nil, err
		}
		value, err := plainJSON(it.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// plainJSON does not escape & and angle brackets, because people read these files.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// indented writes a value over several lines; the first line has no prefix.
func indented(v any, prefix, indent string) ([]byte, error) {
	raw, err := plainJSON(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, prefix, indent); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
