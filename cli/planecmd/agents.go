package planecmd

import (
	"context"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/output"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/api"
	"svc/server/client"
)

var agentColumns = rest.Columns[api.AgentItem]{
	Header: []string{"ID", "NAME", "ENVIRONMENT", "MODEL", "UPDATED"},
	Row: func(a api.AgentItem) []string {
		return []string{a.ID, a.Name, a.Environment, model(a.ModelProvider, a.ModelName), output.Stamp(a.UpdatedAt)}
	},
}

// model joins provider and name.
func model(provider, name string) string {
	if provider == "" || name == "" {
		return provider + name
	}
	return provider + "/" + name
}

func NewAgentsCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	cmd := command.NewGroupCmd("agents", "Agents: register, list, change, delete",
		`  svc agents list --environment production
  svc agents create support-bot --environment production --config-file agent.yaml
  svc agents tools agt_01k…`,
		newAgentListCmd(r),
		rest.NewValueCmd(r, &cobra.Command{
			Use: "get ID", Short: "Show an agent with its configuration",
			Example:           `  svc agents get agt_01k… -o yaml`,
			Args:              command.WantArgs("an ID"),
			ValidArgsFunction: rest.CompleteIDs(r, rest.CompleteAgents),
		}, func(ctx context.Context, c *client.Client, args []string) (api.Agent, error) {
			return c.GetAgent(ctx, args[0])
		}),
		newAgentCreateCmd(r), newAgentUpdateCmd(r),
		rest.NewDeleteCmd(r, "agent", `  svc agents delete agt_01k… --yes`, rest.CompleteAgents,
			func(ctx context.Context, c *client.Client, id string) (string, error) {
				a, err := c.GetAgent(ctx, id)
				return a.Name, err
			},
			func(ctx context.Context, c *client.Client, id string) error {
				warnings, err := c.DeleteAgent(ctx, id)
				rest.WriteWarnings(r.Env, warnings)
				return err
			}),
		newAgentToolsCmd(r), newAgentHistoryCmd(r),
	)
	r.AddFlags(cmd)
	return cmd
}

func newAgentListCmd(r *rest.Connection) *cobra.Command {
	var q client.AgentQuery
	cmd := rest.NewListCmd(r, &cobra.Command{
		Use: "list", Short: "List agents, newest first",
		Example: `  svc agents list --environment production --all -o json`,
	}, agentColumns, func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.AgentItem], error) {
		q.Page = p
		return c.ListAgents(ctx, q)
	})
	cmd.Flags().StringVar(&q.Environment, "environment", "", "only agents of this environment")
	return cmd
}

// agentFlags are the fields of an agent as flags.
type agentFlags struct {
	name, provider, model, environment, description, configFile string
}

var agentFlagNames = []string{"name", "model-provider", "model-name", "environment", "description", "config-file"}

func (a *agentFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.name, "name", "", "name, unique in the tenant")
	f.StringVar(&a.provider, "model-provider", "", "provider of the model")
	f.StringVar(&a.model, "model-name", "", "name of the model")
	f.StringVar(&a.environment, "environment", "", "environment, such as production")
	f.StringVar(&a.description, "description", "", "what the agent does")
	f.StringVar(&a.configFile, "config-file", "", `file with the agent's configuration (YAML), "-" for standard input`)
}

// config reads the configuration file; without one it is empty.
func (a *agentFlags) config(env process.Env) (string, error) {
	if a.configFile == "" {
		return "", nil
	}
	data, err := env.ReadFile(a.configFile)
	if err != nil {
		return "", command.Usage(err, "")
	}
	return string(data), nil
}

func newAgentCreateCmd(r *rest.Connection) *cobra.Command {
	var a agentFlags
	cmd := rest.NewValueCmd(r, &cobra.Command{
		Use: "create", Short: "Register an agent",
		Example: `  svc agents create support-bot --model-provider anthropic --model-name claude-sonnet-4-5`,
	}, func(ctx context.Context, c *client.Client, _ []string) (api.AgentCreated, error) {
		text, err := a.config(r.Env)
		if err != nil {
			return api.AgentCreated{}, err
		}
		return c.CreateAgent(ctx, api.AgentCreate{
			Name: a.name, ModelProvider: a.provider, ModelName: a.model,
			Environment: a.environment, Description: a.description, ConfigYAML: text,
		})
	})
	a.add(cmd)
	command.TakeName(cmd, &a.name)
	return cmd
}

func newAgentUpdateCmd(r *rest.Connection) *cobra.Command {
	var a agentFlags
	var cmd *cobra.Command
	cmd = rest.NewValueCmd(r, &cobra.Command{
		Use: "update ID", Short: "Change an agent; what is not given stays",
		Long: `Change an agent; what is not given stays. A changed configuration becomes a new
deployment record.`,
		Example:           `  svc agents update agt_01k… --config-file agent.yaml`,
		Args:              command.WantArgs("an ID"),
		ValidArgsFunction: rest.CompleteIDs(r, rest.CompleteAgents),
	}, func(ctx context.Context, c *client.Client, args []string) (api.Agent, error) {
		if err := command.AnyChanged(cmd, agentFlagNames...); err != nil {
			return api.Agent{}, err
		}
		text, err := a.config(r.Env)
		if err != nil {
			return api.Agent{}, err
		}
		return c.UpdateAgent(ctx, args[0], api.AgentUpdate{
			Name:          command.Changed(cmd, "name", &a.name),
			ModelProvider: command.Changed(cmd, "model-provider", &a.provider),
			ModelName:     command.Changed(cmd, "model-name", &a.model),
			Environment:   command.Changed(cmd, "environment", &a.environment),
			Description:   command.Changed(cmd, "description", &a.description),
			ConfigYAML:    command.Changed(cmd, "config-file", &text),
		})
	})
	a.add(cmd)
	return cmd
}

func newAgentToolsCmd(r *rest.Connection) *cobra.Command {
	var id string
	cmd := rest.NewListCmd(r, &cobra.Command{
		Use: "tools ID", Short: "List the tools that an agent was seen to call",
		Example:           `  svc agents tools agt_01k…`,
		ValidArgsFunction: rest.CompleteIDs(r, rest.CompleteAgents),
		Args:              keepArg(&id, "an ID"),
	}, rest.Columns[api.AgentTool]{
		Header: []string{"TOOL", "CALLS", "LAST CALLED"},
		Row: func(t api.AgentTool) []string {
			return []string{t.ToolName, output.Count(t.CallCount), output.Stamp(t.LastCalledAt)}
		},
	}, func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.AgentTool], error) {
		return c.ListAgentTools(ctx, id, p)
	})
	return cmd
}

func newAgentHistoryCmd(r *rest.Connection) *cobra.Command {
	var id string
	cmd := rest.NewListCmd(r, &cobra.Command{
		Use: "history ID", Short: "List the configurations an agent has had, newest first",
		Example:           `  svc agents history agt_01k… -o yaml`,
		ValidArgsFunction: rest.CompleteIDs(r, rest.CompleteAgents),
		Args:              keepArg(&id, "an ID"),
	}, rest.Columns[api.Deployment]{
		Header: []string{"ID", "DEPLOYED", "BY", "BYTES"},
		Row: func(d api.Deployment) []string {
			return []string{d.ID, output.Stamp(d.DeployedAt), d.DeployedBy, output.Count(int64(len(d.ConfigYAML)))}
		},
	}, func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.Deployment], error) {
		return c.ListAgentHistory(ctx, id, p)
	})
	return cmd
}

// keepArg asks for one argument and notes it.
func keepArg(p *string, name string) cobra.PositionalArgs {
	check := command.WantArgs(name)
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return err
		}
		*p = args[0]
		return nil
	}
}
