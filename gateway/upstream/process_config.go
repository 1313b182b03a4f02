package upstream

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"svc/gateway/base/diag"
)

// The values of upstreams[].sharing: the unit that has a process of its own.
const (
	SharingSession   = "session"
	SharingPrincipal = "principal"
	SharingNone      = "none"
	SharingAll       = "all"
)

// The values of upstreams[].stderr.
const (
	StderrLog     = "log"
	StderrDiscard = "discard"
)

// Sharings and Stderrs are the values that the fields of these names can have.
var (
	Sharings = []string{SharingSession, SharingPrincipal, SharingNone, SharingAll}
	Stderrs  = []string{StderrLog, StderrDiscard}
)

// ProcessConfig is the part of upstreams[] for a server that is a program on this
// machine: it reads messages from its standard input and writes them to its standard
// output, one per line.
type ProcessConfig struct {
	// Command is the program with its arguments, instead of url. It is not interpreted by
	// a shell. A program without a slash is looked up in PATH.
	Command []string `yaml:"command" env:"true"`
	// Env is added to the environment of the program, which otherwise contains PATH,
	// LANG, HOME and TMPDIR.
	Env map[string]string `yaml:"env" env:"true" secret:"true"`
	// InheritEnv lists variables that the program gets from the gateway's own
	// environment.
	InheritEnv []string `yaml:"inherit_env"`
	// WorkingDir is the working directory of the program; its HOME when empty.
	WorkingDir string `yaml:"working_dir" env:"true"`
	// User is the account that the program runs as, by name or number. It needs root, or
	// CAP_SETUID and CAP_SETGID. Empty means the account of the gateway.
	User string `yaml:"user"`
	// Sandbox loosens the isolation of the program.
	Sandbox SandboxConfig `yaml:"sandbox"`
	// Sharing is the unit that has a process of its own: session (each client session),
	// principal (each caller), none (each call) or all (one process for all callers).
	Sharing string `yaml:"sharing"`
	// MaxProcesses bounds the processes of the upstream. At the limit the process that
	// was idle for the longest time is ended; if none is idle, calls get 503
	// upstream_busy.
	MaxProcesses int `yaml:"max_processes"`
	// MaxPerPrincipal bounds the processes of one caller in the same way; callers that
	// are identified by their address only are counted by address, or IPv6 /64.
	MaxPerPrincipal int `yaml:"max_per_principal"`
	// IdleTimeout is the time without a call after which a process ends.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// StartTimeout bounds the start of a process, including its response to initialize.
	StartTimeout time.Duration `yaml:"start_timeout"`
	// MaxLineBytes bounds one message of the program. A program that exceeds it is ended.
	MaxLineBytes int `yaml:"max_line_bytes"`
	// Stderr is log or discard: the handling of the program's standard error.
	Stderr string `yaml:"stderr"`
}

// SandboxConfig are exceptions from the isolation of a program.
type SandboxConfig struct {
	// UserNamespaces allows the program to make user namespaces, as browsers do for a
	// sandbox of their own. In a namespace the program has all capabilities, and reaches
	// parts of the kernel that are closed to it otherwise.
	UserNamespaces bool `yaml:"user_namespaces"`
}

// SetDefaults sets the documented defaults.
func (c *ProcessConfig) SetDefaults() {
	*c = ProcessConfig{
		Sharing: SharingSession, MaxProcesses: 32, MaxPerPrincipal: 4, IdleTimeout: 10 * time.Minute,
		StartTimeout: 30 * time.Second, MaxLineBytes: 16 << 20, Stderr: StderrLog,
	}
}

// Limits of a command.
const (
	maxArguments     = 256
	maxArgument      = 64 << 10 // bytes
	maxVariables     = 256
	minLineBytes     = 4 << 10
	maxLineBytes     = 256 << 20
	maxProcesses     = 10_000
	maxProcessPeriod = 24 * time.Hour
)

// variableName is the name of an environment variable; processName the name of an
// upstream that is also the name of a folder.
var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	processName  = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$`)
)

// validateProcess reports the errors of an upstream that is a program.
func (c *Config) validateProcess(at diag.At) {
	p := &c.ProcessConfig
	if c.URL != "" {
		at.Field("command").Hint("remove one of them").Errorf("url-and-command", "an upstream has a url or a command, not both")
	}
	if c.Name != "" && !processName.MatchString(c.Name) {
		at.Field("name").Hint("use letters, digits, _, - and ., at most 64").
			Errorf("name", "names the folder of the program too, so it can hold nothing else")
	}
	if len(c.Headers) > 0 {
		at.Field("headers").Hint("set variables in env").Errorf("unused", "has no effect on a program")
	}
	if c.Credentials != nil {
		at.Field("credentials").Hint("set variables in env").Errorf("unused", "has no effect on a program")
	}
	if c.TLS != (TLSConfig{}) {
		at.Field("tls").Hint("remove the section").Errorf("unused", "has no effect on a program")
	}
	p.validateCommand(at.Field("command"))
	if len(p.Env)+len(p.InheritEnv) > maxVariables {
		at.Field("env").Errorf("range", "has more than %d variables, together with inherit_env", maxVariables)
	}
	for name, value := range p.Env {
		switch {
		case !variableName.MatchString(name):
			at.Field("env").Field(name).Errorf("variable", "%.40q is not the name of a variable", name)
		case strings.ContainsRune(value, 0):
			at.Field("env").Field(name).Errorf("variable", "the value holds a NUL character")
		}
	}
	for i, name := range p.InheritEnv {
		if !variableName.MatchString(name) {
			at.Field("inherit_env").Index(i).Hint("list names, as in HTTPS_PROXY").Errorf("variable", "%.40q is not the name of a variable", name)
		}
	}
	p.validateBounds(at)
}

func (p *ProcessConfig) validateCommand(at diag.At) {
	if p.Command[0] == "" {
		at.Index(0).Hint(`as in command: [npx, -y, "@modelcontextprotocol/server-filesystem", /srv/docs]`).
			Errorf("required", "the first element is the program")
	} else if strings.ContainsAny(p.Command[0], " \t") && len(p.Command) == 1 {
		at.Index(0).Hint("write each argument as an element of its own").
			Warnf("command", "no shell splits it: the whole text is the name of the program")
	}
	if len(p.Command) > maxArguments {
		at.Errorf("range", "has more than %d elements", maxArguments)
	}
	for i, arg := range p.Command {
		if len(arg) > maxArgument || strings.ContainsRune(arg, 0) {
			at.Index(i).Errorf("argument", "is longer than %d bytes, or holds a NUL character", maxArgument)
		}
	}
}

func (p *ProcessConfig) validateBounds(at diag.At) {
	oneOf(at.Field("sharing"), p.Sharing, Sharings)
	oneOf(at.Field("stderr"), p.Stderr, Stderrs)
	between(at.Field("max_processes"), p.MaxProcesses, 1, maxProcesses)
	between(at.Field("max_per_principal"), p.MaxPerPrincipal, 1, maxProcesses)
	between(at.Field("idle_timeout"), p.IdleTimeout, time.Second, maxProcessPeriod)
	between(at.Field("start_timeout"), p.StartTimeout, time.Second, maxProcessPeriod)
	between(at.Field("max_line_bytes"), p.MaxLineBytes, minLineBytes, maxLineBytes)
}

func oneOf(at diag.At, value string, known []string) {
	if !slices.Contains(known, value) {
		at.Hint("use %s", strings.Join(known, ", ")).Errorf("enum", "unknown value %q", value)
	}
}

func between[T int | time.Duration](at diag.At, value, low, high T) {
	if value < low || value > high {
		at.Errorf("range", "must be from %v to %v, is %v", low, high, value)
	}
}

// needingCommand returns the keys that have no effect on an upstream with a url.
func (p *ProcessConfig) needingCommand() (keys []string) {
	var unset ProcessConfig
	unset.SetDefaults()
	for _, k := range []struct {
		name string
		set  bool
	}{
		{"env", len(p.Env) > 0}, {"inherit_env", len(p.InheritEnv) > 0}, {"working_dir", p.WorkingDir != ""}, {"user", p.User != ""},
		{"sandbox", p.Sandbox != SandboxConfig{}},
		{"sharing", p.Sharing != unset.Sharing}, {"max_processes", p.MaxProcesses != unset.MaxProcesses},
		{"max_per_principal", p.MaxPerPrincipal != unset.MaxPerPrincipal}, {"idle_timeout", p.IdleTimeout != unset.IdleTimeout},
		{"start_timeout", p.StartTimeout != unset.StartTimeout}, {"max_line_bytes", p.MaxLineBytes != unset.MaxLineBytes},
		{"stderr", p.Stderr != unset.Stderr},
	} {
		if k.set {
			keys = append(keys, k.name)
		}
	}
	return keys
}
