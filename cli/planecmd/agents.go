package planecmd

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

var agents = rest.Resource[api.AgentItem]{
	Noun: "agent", Path: "svc agents", ID: "agt_01k…",
	Describe: func(a api.AgentItem) (string, string) { return a.ID, a.Name },
	Columns: rest.Columns[api.AgentItem]{
		Header: []string{"ID", "NAME", "ENVIRONMENT", "MODEL", "UPDATED"},
		Row: func(a api.AgentItem) []string {
			return []string{a.ID, a.Name, a.Environment, display.Model(a.ModelProvider, a.ModelName), command.Stamp(a.UpdatedAt)}
		},
	},
	Fetch: func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.AgentItem], error) {
		return c.ListAgents(ctx, client.AgentQuery{Page: p})
	},
	Filter: func(r *rest.Connection, cmd *cobra.Command) rest.Fetch[api.AgentItem] {
		var q client.AgentQuery
		cmd.Flags().StringVar(&q.Environment, "environment", "", "only agents of this environment")
		cmd.Flags().StringVar(&q.TeamID, "team-id", "", "only agents of this team")
		rest.CompleteFlag(r, cmd, "environment", completeEnvironments)
		teams.CompleteFlag(r, cmd, "team-id")
		return func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.AgentItem], error) {
			q.Page = p
			return c.ListAgents(ctx, q)
		}
	},
	Get:    rest.GetBy((*client.Client).GetAgent, func(a api.Agent) string { return a.Name }),
	Create: func() rest.Creator { return &agentFields{} },
	Update: func() rest.Updater { return &agentFields{} },
	Delete: func(ctx context.Context, c *client.Client, id string) ([]string, error) {
		return c.DeleteAgent(ctx, id)
	},

	ListHelp:   rest.Help{Short: "List agents, newest first", Example: `  svc agents list --environment production --all -o json`},
	GetHelp:    rest.Help{Short: "Show an agent with its configuration", Example: `  svc agents get agt_01k… -o yaml`},
	CreateHelp: rest.Help{Short: "Register an agent", Example: `  svc agents create support-bot --model-provider anthropic --model-name claude-sonnet-4-5`},
	UpdateHelp: rest.Help{Short: "Change an agent; fields without a flag keep their values", Long: `Change an agent; fields without a flag keep their values. A changed configuration becomes a new
deployment record.`, Example: `  svc agents update agt_01k… --config-file agent.yaml`},
}

// NewAgentsCmd returns the command 'svc agents'.
func NewAgentsCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	cmd := command.NewGroupCmd("agents", "Register, list, change and delete agents",
		`  svc agents list --environment production
  svc agents create support-bot --environment production --config-file agent.yaml
  svc agents tools agt_01k…`, append(agents.Commands(r), newAgentToolsCmd(r), newAgentHistoryCmd(r))...)
	r.AddFlags(cmd)
	return cmd
}

// agentFields are the fields of an agent as flags.
type agentFields struct {
	env process.Env
	cmd *cobra.Command

	name, provider, model, environment, team, description, configFile string
}

// Flags adds the flags.
func (a *agentFields) Flags(r *rest.Connection, cmd *cobra.Command) {
	a.env, a.cmd = r.Env, cmd
	f := cmd.Flags()
	f.StringVar(&a.name, "name", "", "name, unique in the tenant")
	f.StringVar(&a.provider, "model-provider", "", "provider of the model")
	f.StringVar(&a.model, "model-name", "", "name of the model")
	f.StringVar(&a.environment, "environment", "", "environment, such as production")
	f.StringVar(&a.team, "team-id", "", "id of the team that the agent belongs to; empty for none")
	f.StringVar(&a.description, "description", "", "what the agent does")
	teams.CompleteFlag(r, cmd, "team-id")
	f.StringVar(&a.configFile, "config-file", "", `file with the agent's configuration (YAML), "-" for standard input`)
}

// config reads the configuration file; without one it is empty.
func (a *agentFields) config() (string, error) {
	if a.configFile == "" {
		return "", nil
	}
	data, err := a.env.ReadFile(a.configFile)
	if err != nil {
		return "", command.Usage(err, "")
	}
	return string(data), nil
}

// Create registers the agent.
func (a *agentFields) Create(ctx context.Context, c *client.Client) (any, error) {
	text, err := a.config()
	if err != nil {
		return nil, err
	}
	return c.CreateAgent(ctx, api.AgentCreate{
		Name: a.name, ModelProvider: a.provider, ModelName: a.model,
		Environment: a.environment, TeamID: a.team, Description: a.description, ConfigYAML: text,
	})
}

// Update changes the fields whose flags were given.
func (a *agentFields) Update(ctx context.Context, c *client.Client, id string) (any, error) {
	text, err := a.config()
	if err != nil {
		return nil, err
	}
	return c.UpdateAgent(ctx, id, api.AgentUpdate{
		Name:          command.Changed(a.cmd, "name", &a.name),
		ModelProvider: command.Changed(a.cmd, "model-provider", &a.provider),
		ModelName:     command.Changed(a.cmd, "model-name", &a.model),
		Environment:   command.Changed(a.cmd, "environment", &a.environment),
		TeamID:        command.Changed(a.cmd, "team-id", &a.team),
		Description:   command.Changed(a.cmd, "description", &a.description),
		ConfigYAML:    command.Changed(a.cmd, "config-file", &text),
	})
}

func newAgentToolsCmd(r *rest.Connection) *cobra.Command {
	var id string
	cmd := rest.NewListCmd(r, &cobra.Command{
		Use: "tools ID", Short: "List the tools that an agent was seen to call",
		Example:           `  svc agents tools agt_01k…`,
		ValidArgsFunction: rest.CompleteIDs(r, agents.Complete),
		Args:              keepArg(&id, "an ID"),
	}, rest.Columns[api.AgentTool]{
		Header: []string{"TOOL", "CALLS", "LAST CALLED"},
		Row: func(t api.AgentTool) []string {
			return []string{t.ToolName, command.Count(t.CallCount), command.Stamp(t.LastCalledAt)}
		},
	}, func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.AgentTool], error) {
		return c.ListAgentTools(ctx, id, p)
	})
	return agents.TakesName(r, cmd, &id)
}

// completeEnvironments lists the environments of agents.
func completeEnvironments(ctx context.Context, c *client.Client) ([]string, error) {
	page, err := c.ListAgents(ctx, client.AgentQuery{Page: rest.FirstPage})
	var values []string
	for _, a := range page.Data {
		values = append(values, a.Environment)
	}
	slices.Sort(values)
	return slices.DeleteFunc(slices.Compact(values), func(v string) bool { return v == "" }), err
}

// completeAgentNames lists the names of agents, and the name for all of them.
func completeAgentNames(ctx context.Context, c *client.Client) ([]string, error) {
	page, err := c.ListAgents(ctx, client.AgentQuery{Page: rest.FirstPage})
	return append(rest.Described(page.Data, func(a api.AgentItem) (string, string) { return a.Name, a.ID }), api.AllAgents+"\tall agents"), err
}

func newAgentHistoryCmd(r *rest.Connection) *cobra.Command {
	var id string
	cmd := rest.NewListCmd(r, &cobra.Command{
		Use: "history ID", Short: "List the configurations an agent has had, newest first",
		Example:           `  svc agents history agt_01k… -o yaml`,
		ValidArgsFunction: rest.CompleteIDs(r, agents.Complete),
		Args:              keepArg(&id, "an ID"),
	}, rest.Columns[api.Deployment]{
		Header: []string{"ID", "DEPLOYED", "BY", "BYTES"},
		Row: func(d api.Deployment) []string {
			return []string{d.ID, command.Stamp(d.DeployedAt), d.DeployedBy, command.Count(int64(len(d.ConfigYAML)))}
		},
	}, func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.Deployment], error) {
		return c.ListAgentHistory(ctx, id, p)
	})
	return agents.TakesName(r, cmd, &id)
}

// keepArg requires one argument and stores it.
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
