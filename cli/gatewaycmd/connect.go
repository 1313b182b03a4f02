package gatewaycmd

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/clients"
	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/base/hostname"
	"svc/gateway/config"
)

const (
	defaultGatewayURL = "http://127.0.0.1:8090/mcp"
	defaultKeyEnv     = "SVC_GATEWAY_KEY"
)

type connectOptions struct {
	url, view, keyEnv, keyFile, name, file, replace string
	inlineKey, write, stdio, askKey                 bool
}

// NewConnectCmd is 'svc connect'.
func NewConnectCmd(env process.Env) *cobra.Command {
	o := connectOptions{}
	cmd := &cobra.Command{
		Use:   "connect [CLIENT]",
		Short: "Connect an MCP client to a gateway",
		Long: `Print the configuration with which an MCP client uses a gateway. With --write, write
it to the client's file: the rest of the file is kept, with comments and trailing
commas, and the old file is copied beside it. A file that cannot be parsed, or that
has another server of that name, is not changed. The servers that the client still
reaches directly, past the gateway, are named. --replace FILE moves those of them out
of the client's file (the copy keeps them) that are upstreams of the gateway with this
configuration: with the same command and arguments, or the same URL, after references
to variables; never by name alone.
Without CLIENT the supported clients are listed.

The key is never printed and never an argument. Clients read it from the variable
of --key-env. Clients that can only start programs, and every client with
--key-file, start 'svc connect --stdio', which reads the key from the file (mode
0600). With --inline-key the key itself is written to the client's file; it is read
from --key-file or from the variable.

With --stdio the command is an MCP server on standard input and output that forwards
to the gateway. Messages of all protocol revisions are forwarded unchanged. It waits
while the gateway restarts, opens a new session after one was lost, and reads the key
again after it was rejected.

SVC_GATEWAY_URL sets --url.`,
		Example: `  svc connect
  svc connect claude-code --url https://gateway.example.com/mcp
  svc connect cursor --url https://gateway.example.com/mcp --write
  svc connect claude-desktop --key-file ~/.config/svc/gateway-key --write
  svc connect --stdio --url https://gateway.example.com/mcp --key-file ~/.config/svc/gateway-key`,
		Args: command.AtMostOne("a CLIENT"),
		ValidArgsFunction: func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
			for _, c := range clients.Clients() {
				names = append(names, c.Name+"\t"+c.Title)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("url") {
				o.url = cmp.Or(env.Getenv("SVC_GATEWAY_URL"), o.url)
			}
			o.askKey = !cmd.Flags().Changed("key-env")
			if err := o.check(len(args) == 1); err != nil {
				return err
			}
			switch {
			case o.stdio:
				return o.runStdio(cmd.Context(), env)
			case len(args) == 0:
				return listClients(env)
			}
			client, ok := clients.Find(args[0])
			if !ok {
				return command.Usagef("run 'svc connect' for the list", "%q is no client%s", args[0], didYouMean(args[0]))
			}
			if client.NeedsProgram() && cmd.Flags().Changed("key-env") && !o.inlineKey {
				return command.Usagef("give --key-file FILE, or --inline-key to write the key into its file",
					"%s passes no variable of yours to the program that it starts: --key-env has no effect", client.Title)
			}
			return o.connect(env, &client)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.url, "url", defaultGatewayURL, "address of the gateway, with its path")
	f.StringVar(&o.view, "view", "", "name of a view of the gateway: /mcp/v/NAME")
	f.StringVar(&o.keyEnv, "key-env", defaultKeyEnv, "variable that holds the key of the client")
	f.StringVar(&o.keyFile, "key-file", "", "file that holds the key of the client")
	f.BoolVar(&o.inlineKey, "inline-key", false, "write the key itself")
	f.StringVar(&o.name, "name", "svc", "name of the server at the client")
	f.BoolVar(&o.write, "write", false, "write to the client's file")
	f.StringVar(&o.file, "file", "", "the client's file (default the usual file of the client)")
	f.StringVar(&o.replace, "replace", "", "configuration of the gateway whose upstreams are moved out of the client's file")
	f.BoolVar(&o.stdio, "stdio", false, "run as an MCP server on standard input and output that forwards to the gateway")
	return cmd
}

var (
	serverNames   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	variableNames = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// check rejects combinations of flags without a meaning, and applies --view.
func (o *connectOptions) check(hasClient bool) error {
	switch {
	case o.stdio && hasClient:
		return command.Usagef("a client starts it: give one or the other", "--stdio takes no CLIENT")
	case o.stdio && (o.write || o.inlineKey):
		return command.Usagef("give one or the other", "--stdio writes no file")
	case o.write && !hasClient:
		return command.Usagef("as in svc connect cursor --write", "--write needs a CLIENT")
	case o.replace != "" && !o.write:
		return command.Usagef("add --write", "--replace is for --write")
	case o.file != "" && !o.write:
		return command.Usagef("add --write", "--file is for --write")
	case !serverNames.MatchString(o.name):
		return command.Usagef("use letters, digits, - and _", "--name %q cannot be a name at every client", o.name)
	case !variableNames.MatchString(o.keyEnv):
		return command.Usagef("give the name of a variable, such as "+defaultKeyEnv+", not its value", "--key-env is no name of a variable")
	}
	u, err := url.Parse(o.url)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return command.Usagef("as in "+defaultGatewayURL, "--url is no http or https URL")
	case u.User != nil || u.Fragment != "" || strings.ContainsFunc(o.url, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\'' || r == '"' || r == '\\' }):
		return command.Usagef("leave it out", "--url holds a password, a fragment or a character that clients do not take")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/mcp"
	}
	if o.view != "" {
		if !serverNames.MatchString(o.view) {
			return command.Usagef("give the name of an entry of views", "--view %q is no name of a view", o.view)
		}
		u.Path = strings.TrimSuffix(u.Path, "/") + "/v/" + o.view
	}
	o.url = u.String()
	return nil
}

func didYouMean(name string) string {
	var names []string
	for _, c := range clients.Clients() {
		names = append(names, c.Name)
	}
	var begin []string
	for _, known := range names {
		if name != "" && strings.HasPrefix(known, strings.ToLower(name)) {
			begin = append(begin, known)
		}
	}
	if len(begin) > 0 {
		return ", did you mean " + strings.Join(begin, " or ") + "?"
	}
	if near := command.Nearest(name, names); near != "" {
		return fmt.Sprintf(", did you mean %q?", near)
	}
	return ""
}

func listClients(env process.Env) error {
	rows := [][]string{}
	for _, c := range clients.Clients() {
		path := "-"
		if c.Path != nil {
			path = c.Path(placeOf(env))
		}
		rows = append(rows, []string{c.Name, c.Title, path})
	}
	return command.ShowTable(env, []string{"CLIENT", "WHAT IT IS", "ITS FILE"}, rows)
}

func placeOf(env process.Env) clients.Place {
	return clients.Place{GOOS: runtime.GOOS, Home: env.Home(), AppData: env.Getenv("APPDATA"), CodexHome: env.Getenv("CODEX_HOME")}
}

// connect prints or writes the entry of one client.
func (o *connectOptions) connect(env process.Env, c *clients.Client) error {
	s := &clients.Server{Name: o.name, URL: o.url, KeyEnv: o.keyEnv, AskKey: o.askKey, Program: env.Executable}
	if o.keyFile != "" {
		path, err := filepath.Abs(expandHome(env, o.keyFile))
		if err != nil {
			return err
		}
		s.KeyFile = path
	} else if c.NeedsProgram() {
		s.KeyFile = filepath.Join(env.Home(), ".config", "svc", "gateway-key")
	}
	if o.inlineKey {
		key, err := o.readKey(env, s.KeyFile)
		if err != nil {
			return err
		}
		if key == "" {
			return command.Usagef("set the variable, or give --key-file", "--inline-key: %s is not set", o.keyEnv)
		}
		s.Key = key
	}
	if strings.HasPrefix(o.url, "http:") && !isLoopback(o.url) {
		fmt.Fprintln(env.Stderr, "note: the URL is plain http: the key can be read on the way")
	}
	if o.write {
		return o.writeFile(env, c, s)
	}
	text, err := c.Snippet(s)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(env.Stdout, "%s\n", text); err != nil {
		return err
	}
	o.explain(env, c, s)
	return nil
}

// explain prints where the snippet goes and what it needs.
func (o *connectOptions) explain(env process.Env, c *clients.Client, s *clients.Server) {
	if c.Path != nil {
		fmt.Fprintf(env.Stderr, "\nMerge this into %s, or add --write. %s.\n", c.Path(placeOf(env)), c.Restart)
	}
	o.explainKey(env, c, s)
}

func (o *connectOptions) explainKey(env process.Env, c *clients.Client, s *clients.Server) {
	switch {
	case s.Key != "":
		fmt.Fprintln(env.Stderr, "The key is in it: keep it out of version control.")
	case s.KeyFile != "":
		if mode, ok := env.Mode(s.KeyFile); !ok {
			fmt.Fprintf(env.Stderr, "Put the key of this client into %s, readable by you alone (mode 0600).\n", s.KeyFile)
		} else if mode&0o077 != 0 {
			fmt.Fprintf(env.Stderr, "Others may read %s: chmod 600 it.\n", s.KeyFile)
		}
	case c.Name == "vscode" && s.AskKey:
		fmt.Fprintln(env.Stderr, "Visual Studio Code asks for the key once and keeps it.")
	default:
		fmt.Fprintf(env.Stderr, "Set %s to the key of this client where the client is started ('svc keygen' makes keys).\n", o.keyEnv)
	}
}

// writeFile merges the entry into the client's file.
func (o *connectOptions) writeFile(env process.Env, c *clients.Client, s *clients.Server) error {
	if c.Path == nil {
		return command.Usagef("leave --write out and paste it into your program", "%s has no file", c.Title)
	}
	path := cmp.Or(expandHome(env, o.file), c.Path(placeOf(env)))
	if o.file == "" && env.Home() == "" && filepath.IsAbs(path) {
		return command.Usagef("give --file", "the home directory is not known")
	}
	path = env.Resolve(path)
	mode, exists := env.Mode(path)
	var old []byte
	if exists {
		var err error
		if old, err = env.ReadFile(path); err != nil {
			return err
		}
	}
	merged, changed, err := c.Merge(old, s)
	if err != nil {
		return command.Failed(fmt.Errorf("%s was not changed: %w", path, err), "correct the file, or paste what 'svc connect "+c.Name+"' prints")
	}
	direct := c.Direct(filepath.Base(path), merged, s)
	if o.replace != "" {
		upstreams, err := upstreamsOf(env, expandHome(env, o.replace))
		if err != nil {
			return err
		}
		project, err := projectOf(path)
		if err != nil {
			return err
		}
		for i := 0; i < len(direct); {
			var removed bool
			behind := direct[i].Behind(upstreams, env.LookupEnv)
			if !behind { // 'svc import' has written absolute paths
				direct[i].MakeAbsolute(project, env.Home())
				behind = direct[i].Behind(upstreams, env.LookupEnv)
			}
			if behind {
				if merged, removed, err = c.Remove(merged, direct[i]); err != nil {
					return command.Failed(fmt.Errorf("%s was not changed: %w", path, err), "remove the entry by hand, or leave --replace out")
				}
			}
			if !removed {
				i++
				continue
			}
			changed = true
			fmt.Fprintf(env.Stderr, "moved out, it is behind the gateway: %s\n", command.Clean(direct[i].Name))
			direct = append(direct[:i], direct[i+1:]...)
		}
	}
	if !changed {
		fmt.Fprintf(env.Stderr, "%s has this entry already\n", path)
		o.explainDirect(env, c, s, direct)
		return nil
	}
	if exists {
		backup := path + ".bak-" + env.Now().UTC().Format("20060102T150405.000Z")
		if err := env.CreateFile(backup, old, mode); err != nil {
			return command.Failed(fmt.Errorf("the old file could not be copied to %s: %w", backup, err), "nothing was changed")
		}
		fmt.Fprintf(env.Stderr, "the old file is %s\n", backup)
	} else {
		mode = 0o644
		if err := env.MakeDir(filepath.Dir(path)); err != nil {
			return err
		}
	}
	if s.Key != "" {
		mode &= 0o700
	}
	if err := env.ReplaceFile(path, merged, mode); err != nil {
		return err
	}
	fmt.Fprintf(env.Stderr, "wrote %s. %s.\n", path, c.Restart)
	o.explainKey(env, c, s)
	o.explainDirect(env, c, s, direct)
	return nil
}

// upstreamsOf reads the upstreams of a gateway's configuration.
func upstreamsOf(env process.Env, path string) ([]clients.Upstream, error) {
	data, err := env.ReadFile(path)
	if err != nil {
		return nil, command.Usage(err, "--replace names the configuration of the gateway")
	}
	file := config.ParseDocument(filepath.Base(path), data, config.Options{Getenv: env.LookupEnv, UnsetIsInfo: true, Files: true}).Draft()
	if file == nil || len(file.Upstreams) == 0 {
		return nil, command.Usagef("see 'svc gateway --config "+path+" --check'", "--replace: %s has no upstreams", path)
	}
	var upstreams []clients.Upstream
	for i := range file.Upstreams {
		upstreams = append(upstreams, clients.Upstream{URL: file.Upstreams[i].URL, Command: file.Upstreams[i].Command})
	}
	return upstreams, nil
}

// explainDirect names the servers that the client reaches past the gateway, in its file and in the
// other files that it reads.
func (o *connectOptions) explainDirect(env process.Env, c *clients.Client, s *clients.Server, direct []*clients.Found) {
	if o.file == "" && c.Also != nil {
		for _, path := range c.Also(placeOf(env)) {
			if data, err := env.ReadFile(path); err == nil {
				direct = append(direct, c.Direct(path, data, s)...)
			}
		}
	}
	if len(direct) == 0 {
		return
	}
	fmt.Fprintf(env.Stderr, "%s still reaches these servers directly, past the gateway:\n", c.Title)
	for _, f := range direct {
		fmt.Fprintf(env.Stderr, "  %s (%s)\n", command.Clean(f.Name), command.Clean(f.From))
	}
	if o.replace == "" {
		fmt.Fprintln(env.Stderr, "Put them behind it ('svc import'), and remove them here: --replace FILE does, with the gateway's configuration.")
		return
	}
	fmt.Fprintln(env.Stderr, "They are no upstreams of that configuration, or not in this list: put them behind the gateway, or remove them by hand.")
}

func expandHome(env process.Env, path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && env.Home() != "" {
		return filepath.Join(env.Home(), rest)
	}
	return path
}

func isLoopback(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && hostname.IsLoopback(u.Hostname())
}
