package gatewaycmd

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/clients"
	"svc/cli/command"
	"svc/cli/process"
)

type importOptions struct {
	from, out, envFile string
}

// NewImportCmd is 'svc import'.
func NewImportCmd(env process.Env) *cobra.Command {
	o := importOptions{from: clients.Auto}
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Create a gateway config from the MCP server lists of other programs",
		Long: `Read the lists of MCP servers of other programs, and write the configuration of a
gateway in front of these servers: the files of Claude Desktop, Claude Code (also the
servers of projects in ~/.claude.json), Codex, Cursor, Gemini CLI, Visual Studio Code,
Windsurf, Zed, Amp, Continue, Goose, opencode and LibreChat, the configuration of
agentgateway, and mcp_servers of LiteLLM. Comments and trailing commas are accepted.

If there are several servers, each gets a prefix made from its name. Secrets are not
written to the configuration: each becomes a variable named SERVER_VARIABLE, as do the
variables to which the lists refer. All paths are absolute: license/ and audit.jsonl
are in the folder of --out, else in the current one. The variables to set are printed without their
values; --env-file writes them with their values to a file of mode 0600. Settings that
cannot be converted become comments with the reason, and every other key of the files
is named: those that restrict access need rules of the gateway. No file is ever
overwritten.

The generated rules allow every tool. Narrow them before production use.`,
		Example: `  svc import ~/.cursor/mcp.json --out svc.yaml --env-file svc.env
  svc import .mcp.json claude_desktop_config.json
  svc import config.yaml --from litellm`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.WantArgs("a FILE")(cmd, args)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return o.run(env, args) },
	}
	command.EnumFlag(cmd, &o.from, "from", clients.Forms, "format of the files")
	cmd.Flags().StringVar(&o.out, "out", "", "write the configuration to this new file instead of standard output")
	cmd.Flags().StringVar(&o.envFile, "env-file", "", "write the variables with their values to this new file")
	return cmd
}

func (o *importOptions) run(env process.Env, paths []string) error {
	for _, path := range []string{o.out, o.envFile} {
		if path != "" && env.Exists(path) {
			return command.Usagef("give another name, or move it away", "%s exists", path)
		}
	}
	dir, err := filepath.Abs(filepath.Dir(o.out)) // the current folder without --out
	if err != nil {
		return fmt.Errorf("find the folder of the configuration: %w", err)
	}
	if strings.Contains(dir, "${") {
		return command.Usagef("name another one with --out", "the folder %s contains ${, which starts a variable in a configuration", dir)
	}
	var servers []*clients.Found
	var unread []clients.Unread
	for _, path := range paths {
		expanded := expandHome(env, path)
		data, err := env.ReadFile(expanded)
		if err != nil {
			return command.Usage(err, "")
		}
		read, err := clients.Read(filepath.Base(path), data, o.from)
		if err != nil {
			return command.Failed(fmt.Errorf("%s: %w", path, err), "nothing was written")
		}
		project, err := projectOf(expanded)
		if err != nil {
			return err
		}
		for _, s := range read.Servers {
			s.MakeAbsolute(project, env.Home())
		}
		servers = append(servers, read.Servers...)
		for _, u := range read.Unread {
			u.At = strings.TrimSuffix(path+", "+u.At, ", ")
			unread = append(unread, u)
		}
	}
	clients.NameAll(servers)
	result := clients.Convert(servers, unread, dir)
	if result.Carried == 0 {
		for _, s := range servers {
			fmt.Fprintf(env.Stderr, "%s: %s\n", command.Clean(s.Name), command.Clean(s.Refused))
		}
		return command.Failed(fmt.Errorf("none of %d servers can be carried over", len(servers)), "nothing was written")
	}
	if err := o.write(env, result); err != nil {
		return err
	}
	o.explain(env, result, servers, dir)
	explainUnread(env, unread)
	return nil
}

// projectOf returns the folder that relative paths in a file of a client refer to: that of the
// file, or the one around a folder like .cursor or .vscode.
func projectOf(path string) (string, error) {
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return "", fmt.Errorf("find the folder of %s: %w", path, err)
	}
	if strings.HasPrefix(filepath.Base(dir), ".") {
		dir = filepath.Dir(dir)
	}
	return dir, nil
}

func (o *importOptions) write(env process.Env, r *clients.Result) error {
	if o.envFile != "" {
		if err := env.CreateFile(o.envFile, r.EnvFile(), 0o600); err != nil {
			return err
		}
	}
	if o.out != "" {
		return env.CreateFile(o.out, r.Config, 0o644)
	}
	_, err := env.Stdout.Write(r.Config)
	return err
}

// explain prints what was imported, what was not, and what to do next.
func (o *importOptions) explain(env process.Env, r *clients.Result, servers []*clients.Found, dir string) {
	w := env.Stderr
	fmt.Fprintf(w, "%d of %d servers are upstreams now\n", r.Carried, r.Carried+r.Left)
	for _, s := range servers {
		if s.Refused != "" {
			fmt.Fprintf(w, "  %s is not: %s\n", command.Clean(s.Name), command.Clean(s.Refused))
		}
		for _, note := range s.Notes {
			if s.Refused == "" {
				fmt.Fprintf(w, "  %s, not imported: %s\n", command.Clean(s.Name), command.Clean(note))
			}
		}
		for _, doubt := range s.Doubts {
			fmt.Fprintf(w, "  %s, check this: %s\n", command.Clean(s.Name), command.Clean(doubt))
		}
	}
	fmt.Fprintf(w, "\nSet these variables before you start the gateway:\n  %-28s hash of the first client's key: svc keygen --id first-client\n", clients.ClientHash)
	for _, v := range r.Variables {
		from := ""
		if v.Value != "" && o.envFile != "" {
			from = " (in " + o.envFile + ")"
		}
		fmt.Fprintf(w, "  %-28s %s%s\n", v.Name, command.Clean(v.For), command.Clean(from))
	}
	config := o.out
	if config == "" {
		config = "FILE"
	}
	license := "svc license init"
	if o.out != "" && filepath.Dir(o.out) != "." {
		license += " --dir " + filepath.Join(dir, "license")
	}
	fmt.Fprintf(w, "\nThen: %s, svc gateway --config %s --check --probe, svc connect\n", command.Clean(license), command.Clean(config))
}

// explainUnread names what else is in the files: first what restricts access, which the gateway
// does not do until its own rules say so.
func explainUnread(env process.Env, unread []clients.Unread) {
	for _, part := range []struct {
		restricts bool
		title     string
	}{
		{true, "Not imported, and probably a restriction of access: write rules and settings of the gateway for it"},
		{false, "Not imported, because it is no server"},
	} {
		title := part.title
		for _, u := range unread {
			if u.Restricts != part.restricts {
				continue
			}
			if title != "" {
				fmt.Fprintf(env.Stderr, "\n%s:\n", title)
				title = ""
			}
			fmt.Fprintf(env.Stderr, "  %s\n", command.Clean(u.String()))
		}
	}
}
