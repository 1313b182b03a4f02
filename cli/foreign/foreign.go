package foreign

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// The supported formats. Auto detects the format of a file.
const (
	Auto         = "auto"
	MCPJSON      = "mcp.json"
	AgentGateway = "agentgateway"
	LiteLLM      = "litellm"
)

// Forms are the values of --from.
var Forms = []string{Auto, MCPJSON, AgentGateway, LiteLLM}

const (
	// maxServers bounds the number of servers in all files together.
	maxServers = 1000
	// maxName bounds names, so that prefixes can be made of them.
	maxName = 31
)

// Server is one server in the configuration of another program.
type Server struct {
	Name string
	From string // the file and the position in it
	// One of both is set.
	URL     string
	Command []string

	Headers, Env []Pair
	Dir          string
	Allow, Deny  []string // names of tools
	// Notes are the settings that are not imported, each with the reason.
	Notes []string
	// Refused is the reason why the server is not imported; empty when it is.
	Refused string
}

// Pair is a name and a value, in the order of the file.
type Pair struct{ Name, Value string }

func (s *Server) notef(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// Read returns the servers of one file. name is the file's name for messages.
func Read(name string, text []byte, form string) ([]*Server, error) {
	var servers []*Server
	var err error
	switch form {
	case Auto:
		servers, err = readAny(name, text)
	case MCPJSON:
		servers, err = readMCPJSON(name, text)
	default:
		servers, err = readYAML(name, text, form)
	}
	if err != nil {
		return nil, err
	}
	if len(servers) > maxServers {
		return nil, fmt.Errorf("it lists more than %d servers", maxServers)
	}
	for _, s := range servers {
		s.check()
	}
	return servers, nil
}

// readAny detects the format by the first character: the JSON files are objects.
func readAny(name string, text []byte) ([]*Server, error) {
	trimmed := strings.TrimLeft(strings.TrimPrefix(string(text), "\ufeff"), " \t\r\n")
	if strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "//") || strings.HasPrefix(trimmed, "/*") {
		return readMCPJSON(name, text)
	}
	return readYAML(name, text, Auto)
}

// check decides whether a server can be an upstream, and converts other forms.
func (s *Server) check() {
	s.unwrapRemote()
	switch {
	case s.Refused != "":
	case s.URL != "" && len(s.Command) > 0:
		s.Refused = "it has a command and a URL"
	case s.URL == "" && (len(s.Command) == 0 || s.Command[0] == ""):
		s.Refused = "it has neither a command nor a URL"
	case isOwnBridge(s.Command):
		s.Refused = "it is svc itself, in front of a gateway"
	case s.URL != "":
		s.checkURL()
	}
}

func (s *Server) checkURL() {
	raw := s.URL
	u, err := url.Parse(placeholders.ReplaceAllString(raw, "x"))
	switch {
	case err != nil || u.Host == "" && u.Scheme == "":
		s.Refused = "its URL is invalid; a program must be given as command with args"
	case u.Scheme != "http" && u.Scheme != "https":
		s.Refused = "its URL has the scheme " + cmp.Or(u.Scheme, "of nothing") + ": a gateway supports http and https"
	case isOwnAddress(u):
		s.Refused = "its URL is that of this gateway (" + listen + "), which would call itself"
	case u.User != nil:
		s.Refused = "its URL has a user or a password: write them as a header"
	}
	if i := strings.IndexByte(raw, '#'); i >= 0 {
		s.URL = raw[:i]
	}
}

// isOwnAddress reports whether a URL is that of the resulting gateway itself, as in the
// file of a client that already uses it.
func isOwnAddress(u *url.URL) bool {
	_, port, _ := net.SplitHostPort(listen)
	ip := net.ParseIP(u.Hostname())
	return u.Port() == port && (strings.EqualFold(strings.TrimSuffix(u.Hostname(), "."), "localhost") || ip.IsLoopback() || ip.IsUnspecified())
}

// runners are programs that download the program that they start, unless it is already
// there.
var runners = []string{"npx", "pnpx", "bunx", "uvx", "docker", "podman", "nerdctl"}

// downloads reports whether the start of a program may include its download, which takes
// longer than the default of start_timeout.
func downloads(command []string) bool {
	program := strings.ToLower(command[0][strings.LastIndexAny(command[0], `/\`)+1:])
	program, _, _ = strings.Cut(program, ".") // npx.cmd
	if slices.Contains(runners, program) {
		return true
	}
	with := func(words ...string) bool { return len(command) > 1 && slices.Contains(words, command[1]) }
	return program == "npm" && with("exec", "x") || program == "pnpm" && with("dlx") || program == "yarn" && with("dlx") ||
		program == "bun" && with("x") || program == "uv" && with("run", "tool") || program == "pipx" && with("run")
}

// isOwnBridge reports whether a command is svc connect --stdio: importing it would make
// the gateway an upstream of itself.
func isOwnBridge(command []string) bool {
	if len(command) < 2 {
		return false
	}
	program := command[0][strings.LastIndexAny(command[0], `/\`)+1:]
	return strings.TrimSuffix(program, ".exe") == "svc" && slices.Contains(command[1:], "connect")
}

// unwrapRemote replaces a command that only connects to a URL by the URL, because the
// gateway connects itself.
func (s *Server) unwrapRemote() {
	at := slices.IndexFunc(s.Command, func(arg string) bool { return arg == "mcp-remote" || strings.HasPrefix(arg, "mcp-remote@") })
	if at < 0 || at+1 >= len(s.Command) || s.URL != "" {
		return
	}
	args := s.Command[at+1:]
	if !strings.HasPrefix(args[0], "http://") && !strings.HasPrefix(args[0], "https://") {
		return
	}
	s.URL, s.Command = args[0], nil
	headed := false
	for i := 1; i < len(args); i++ {
		if args[i] != "--header" || i+1 == len(args) {
			if option, _, _ := strings.Cut(args[i], "="); strings.HasPrefix(option, "-") {
				s.notef("the option %s of mcp-remote", option)
			}
			continue
		}
		i++
		name, value, _ := strings.Cut(args[i], ":")
		s.Headers = append(s.Headers, Pair{strings.TrimSpace(name), s.fromEnv(strings.TrimSpace(value))})
		headed = true
	}
	if !headed {
		s.notef("the login stored by mcp-remote: set headers, if the server requires a credential")
	}
	s.Env = nil
}

// fromEnv replaces references to the server's own env by the values there.
func (s *Server) fromEnv(value string) string {
	for _, p := range s.Env {
		value = strings.ReplaceAll(value, "${"+p.Name+"}", p.Value)
	}
	return value
}

// NameAll gives all servers unique names that can be prefixes.
func NameAll(servers []*Server) {
	taken := map[string]bool{}
	for _, s := range servers {
		base := strings.Trim(strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
				return r
			}
			return '-'
		}, s.Name), "-_")
		base = cmp.Or(base, "server")
		base = base[:min(len(base), maxName-4)]
		name := base
		for n := 2; taken[strings.ToLower(name)]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		taken[strings.ToLower(name)] = true
		if name != s.Name && s.Refused == "" {
			s.notef("the name %q: it is %s here", s.Name, name)
		}
		s.Name = name
	}
}
