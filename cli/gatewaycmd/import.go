package gatewaycmd

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/foreign"
	"svc/cli/output"
	"svc/cli/process"
)

type importOptions struct {
	from, out, envFile string
}

// NewImportCmd is 'svc import'.
func NewImportCmd(env process.Env) *cobra.Command {
	o := importOptions{from: foreign.Auto}
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Create a gateway config from the MCP server lists of other programs",
		Long: `Read the lists of MCP servers of other programs, and write the configuration of a
gateway in front of these servers: mcp.json of Claude Desktop, Claude Code, Cursor,
Gemini CLI and Visual Studio Code (comments and trailing commas too), the
configuration of agentgateway, and mcp_servers of LiteLLM.

If there are several servers, each gets a prefix made from its name. Secrets are not
written to the configuration: each becomes a variable. The variables to set are
printed without their values; --env-file writes them with their values to a file of
mode 0600. Settings that cannot be converted become comments with the reason. No file
is ever overwritten.

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
	command.EnumFlag(cmd, &o.from, "from", foreign.Forms, "format of the files")
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
	var servers []*foreign.Server
	for _, path := range paths {
		data, err := env.ReadFile(expandHome(env, path))
		if err != nil {
			return command.Usage(err, "")
		}
		read, err := foreign.Read(filepath.Base(path), data, o.from)
		if err != nil {
			return command.Failed(fmt.Errorf("%s: %w", path, err), "nothing was written")
		}
		servers = append(servers, read...)
	}
	foreign.NameAll(servers)
	result := foreign.Convert(servers)
	if result.Carried == 0 {
		for _, s := range servers {
			fmt.Fprintf(env.Stderr, "%s: %s\n", output.Clean(s.Name), s.Refused)
		}
		return command.Failed(fmt.Errorf("none of %d servers can be carried over", len(servers)), "nothing was written")
	}
	if err := o.write(env, result); err != nil {
		return err
	}
	o.explain(env, result, servers)
	return nil
}

func (o *importOptions) write(env process.Env, r *foreign.Result) error {
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
func (o *importOptions) explain(env process.Env, r *foreign.Result, servers []*foreign.Server) {
	w := env.Stderr
	fmt.Fprintf(w, "%d of %d servers are upstreams now\n", r.Carried, r.Carried+r.Left)
	for _, s := range servers {
		if s.Refused != "" {
			fmt.Fprintf(w, "  %s is not: %s\n", output.Clean(s.Name), output.Clean(s.Refused))
		}
		for _, note := range s.Notes {
			if s.Refused == "" {
				fmt.Fprintf(w, "  %s, not imported: %s\n", output.Clean(s.Name), output.Clean(note))
			}
		}
	}
	fmt.Fprintf(w, "\nSet these variables before you start the gateway:\n  %-28s hash of the first client's key: svc keygen --id first-client\n", foreign.ClientHash)
	for _, v := range r.Variables {
		from := ""
		if v.Value != "" && o.envFile != "" {
			from = " (in " + o.envFile + ")"
		}
		fmt.Fprintf(w, "  %-28s %s%s\n", v.Name, output.Clean(v.For), output.Clean(from))
	}
	config := o.out
	if config == "" {
		config = "FILE"
	}
	fmt.Fprintf(w, "\nThen: svc license init, svc gateway --config %s --check --probe, svc connect\n", config)
}
