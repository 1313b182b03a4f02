package clients

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The supported formats. Auto detects the format of a file.
const (
	Auto         = "auto"
	MCPJSON      = "mcp.json"
	AgentGateway = "agentgateway"
	LiteLLM      = "litellm"
	Codex        = "codex"
)

// Forms are the values of --from.
var Forms = []string{Auto, MCPJSON, AgentGateway, LiteLLM, Codex}

const (
	// maxServers bounds the number of servers in all files together.
	maxServers = 1000
	// maxName bounds names, so that prefixes can be made of them.
	maxName = 31
)

// Found is one server in the configuration of another program.
type Found struct {
	Name string
	From string // the file and the position in it
	// One of both is set.
	URL     string
	Command []string

	Headers, Env []Pair
	Dir          string
	Allow, Deny  []string // names of tools
	// Notes are the settings that are not imported, each with the reason; Doubts are what is
	// imported and is probably wrong.
	Notes, Doubts []string
	// Refused is the reason why the server is not imported; empty when it is.
	Refused string

	disabled bool // the other program does not use it
}

// relativePath matches arguments that name a file or folder relative to another one.
var relativePath = regexp.MustCompile(`^\.{1,2}(/|$)|^[^-/~$%=:@][^=:@]*\.(js|mjs|cjs|ts|py|rb|jar|sh|db|json|ya?ml|toml)$`)

// MakeAbsolute replaces relative paths of the program and its working directory: a gateway may run
// elsewhere. They refer to project, the absolute path of a folder. Relative arguments are a doubt,
// because they may be no paths.
func (s *Found) MakeAbsolute(project, home string) {
	if len(s.Command) == 0 {
		return
	}
	absolute := func(from, path string) string {
		if rest, ok := strings.CutPrefix(path, "~/"); ok && home != "" {
			return filepath.Join(home, rest)
		}
		if path == "" || filepath.IsAbs(path) || placeholders.MatchString(path) || strings.HasPrefix(path, "~") {
			return path
		}
		return filepath.Join(from, path)
	}
	s.Dir = absolute(project, s.Dir)
	if strings.Contains(s.Command[0], "/") {
		s.Command[0] = absolute(cmp.Or(s.Dir, project), s.Command[0])
	}
	for _, arg := range s.Command[1:] {
		if s.Dir == "" && relativePath.MatchString(arg) {
			s.Doubts = append(s.Doubts, fmt.Sprintf("its argument %q is relative to the folder of its client: set working_dir, or write the whole path", arg))
		}
	}
}

// refusedOwn is the reason for the gateway itself.
const refusedOwn = "it is svc itself, in front of a gateway"

// Pair is a name and a value, in the order of the file.
type Pair struct{ Name, Value string }

func (s *Found) notef(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// Foreign is the configuration of another program.
type Foreign struct {
	Servers []*Found
	// Unread are the members of the file, outside of the entries of servers, that were not read.
	Unread []Unread

	file string
}

// Read returns the servers of one file. name is the file's name for messages.
func Read(name string, text []byte, form string) (*Foreign, error) {
	f := &Foreign{file: name}
	var err error
	switch {
	case form == Codex || form == Auto && looksLikeTOML(name, text):
		err = f.readTOML(text)
	case form == MCPJSON || form == Auto && looksLikeJSON(text):
		err = f.readJSON(text, form)
	default:
		err = f.readYAML(text, form)
	}
	if err != nil {
		return nil, err
	}
	if len(f.Servers) > maxServers {
		return nil, fmt.Errorf("it lists more than %d servers", maxServers)
	}
	for _, s := range f.Servers {
		s.check()
	}
	return f, nil
}

func (f *Foreign) readJSON(text []byte, form string) error {
	plain, err := strictJSON(text)
	if err != nil {
		return err
	}
	root, err := parseEntry(plain)
	if err != nil {
		return err
	}
	if !root.object() {
		return errors.New("it is not a JSON object")
	}
	return f.readEntry(root, form)
}

// looksLikeJSON reports whether a file begins as an object, or with a comment of JSON.
func looksLikeJSON(text []byte) bool {
	trimmed := strings.TrimLeft(strings.TrimPrefix(string(text), "\ufeff"), " \t\r\n")
	return strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "//") || strings.HasPrefix(trimmed, "/*")
}

// tomlLine is the first line of a TOML file that is no comment: a table, or a key with a value.
var tomlLine = regexp.MustCompile(`^\s*(?:#[^\n]*\n\s*)*(?:\[|[\w."-]+\s*=)`)

func looksLikeTOML(name string, text []byte) bool {
	return strings.HasSuffix(strings.ToLower(name), ".toml") || tomlLine.Match(text)
}

// check decides whether a server can be an upstream, and converts other forms.
func (s *Found) check() {
	s.unwrapRemote()
	switch {
	case s.Refused != "":
	case s.URL != "" && len(s.Command) > 0:
		s.Refused = "it has a command and a URL"
	case s.URL == "" && (len(s.Command) == 0 || s.Command[0] == ""):
		s.Refused = "it has neither a command nor a URL"
	case isOwnBridge(s.Command):
		s.Refused = refusedOwn
	case s.URL != "":
		s.checkURL()
	case spaced.MatchString(s.Command[0]):
		program := strings.Fields(s.Command[0])[0] // what follows may be a secret
		s.Doubts = append(s.Doubts, fmt.Sprintf("its command, which begins with %q, is the name of one program: if it has arguments, write them into args", program))
	}
}

func (s *Found) checkURL() {
	raw := s.URL
	u, err := url.Parse(exampleOf(raw))
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

// exampleOf returns a URL with the defaults of its references to variables in their place, and a
// word for those without one; a reference at the start may be the scheme and the host.
func exampleOf(raw string) string {
	return placeholders.ReplaceAllStringFunc(raw, func(ref string) string {
		switch m := placeholders.FindStringSubmatch(ref); {
		case m[2] != "":
			return m[2]
		case strings.HasPrefix(raw, ref):
			return "https://x"
		}
		return "x"
	})
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
func (s *Found) unwrapRemote() {
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
		header, ok := strings.CutPrefix(args[i], "--header=")
		if !ok && (args[i] != "--header" || i+1 == len(args)) {
			if option, _, _ := strings.Cut(args[i], "="); strings.HasPrefix(option, "-") {
				s.notef("the option %s of mcp-remote", option)
			}
			continue
		}
		if !ok {
			i++
			header = args[i]
		}
		name, value, _ := strings.Cut(header, ":")
		s.Headers = append(s.Headers, Pair{strings.TrimSpace(name), s.fromEnv(strings.TrimSpace(value))})
		headed = true
	}
	if !headed {
		s.notef("the login stored by mcp-remote: set headers, if the server requires a credential")
	}
	s.Env = nil
}

// fromEnv replaces references to the server's own env by the values there.
func (s *Found) fromEnv(value string) string {
	for _, p := range s.Env {
		value = strings.ReplaceAll(value, "${"+p.Name+"}", p.Value)
	}
	return value
}

// NameAll gives all servers that are imported unique names that can be prefixes: with an underscore
// after them, none begins with another.
func NameAll(servers []*Found) {
	taken := map[string]bool{"svc": true} // the name of the gateway itself
	begun := map[string]bool{}            // what is before an underscore in a taken name
	clash := func(name string) bool {
		if taken[name] || begun[name] {
			return true
		}
		for i := range name {
			if name[i] == '_' && taken[name[:i]] {
				return true
			}
		}
		return false
	}
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
		if s.Refused != "" {
			s.Name = base // as its file has it, so that it is found there
			continue
		}
		name := base
		if clash(strings.ToLower(name)) {
			base = strings.ReplaceAll(base, "_", "-")
			name = base
		}
		for n := 2; clash(strings.ToLower(name)); n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		taken[strings.ToLower(name)] = true
		for i := range name {
			if name[i] == '_' {
				begun[strings.ToLower(name[:i])] = true
			}
		}
		if name != s.Name {
			s.notef("the name %q: it is %s here", s.Name, name)
		}
		s.Name = name
	}
}
