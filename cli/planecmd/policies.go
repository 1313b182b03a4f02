package planecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/client"
	"svc/store/api"
)

var policies = rest.Resource[api.Policy]{
	Noun: "policy", Path: "svc policies", ID: "pol_01k…",
	Describe: func(p api.Policy) (string, string) { return p.ID, p.Name },
	Columns: rest.Columns[api.Policy]{
		Header: []string{"ID", "NAME", "ON", "PHASE", "CONDITION", "ACTION", "ENABLED", "FIRED"},
		Row: func(p api.Policy) []string {
			return []string{p.ID, p.Name, p.On, p.Phase, conditionText(p.Condition), actionText(p), command.YesNo(p.Enabled), command.Count(p.FireCount)}
		},
		WideHeader: []string{"STRATEGY", "MESSAGE", "CREATED", "UPDATED"},
		WideRow: func(p api.Policy) []string {
			return []string{command.Dash(p.RedactionStrategy), command.Dash(p.Message), command.Stamp(p.CreatedAt), command.Stamp(p.UpdatedAt)}
		},
	},
	Fetch: func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.Policy], error) {
		return c.ListPolicies(ctx, client.PolicyQuery{Page: p})
	},
	Filter: func(_ *rest.Connection, cmd *cobra.Command) rest.Fetch[api.Policy] {
		var q client.PolicyQuery
		command.EnumFlag(cmd, &q.Phase, "phase", api.Phases, "only policies of this phase")
		command.BoolFlag(cmd, &q.Enabled, "enabled", "only policies that are enabled, or with =false those that are not")
		return func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.Policy], error) {
			q.Page = p
			return c.ListPolicies(ctx, q)
		}
	},
	Get:    rest.GetBy((*client.Client).GetPolicy, func(p api.Policy) string { return p.Name }),
	Create: func() rest.Creator { return &policyFields{create: true} },
	Update: func() rest.Updater { return &policyFields{} },
	Delete: rest.Deleted((*client.Client).DeletePolicy),

	ListHelp: rest.Help{Short: "List policies, newest first", Example: `  svc policies list --enabled=false`},
	GetHelp:  rest.Help{Short: "Show a policy", Example: `  svc policies get pol_01k…`},
	CreateHelp: rest.Help{Short: "Create a policy",
		Example: `  svc policies create stop-injection --phase request --condition injection_score --threshold 0.8 --action block`},
	UpdateHelp: rest.Help{Short: "Change a policy; fields without a flag keep their values",
		Example: `  svc policies update pol_01k… --condition injection_score --threshold 0.9`},
}

// NewPoliciesCmd returns the command 'svc policies'.
func NewPoliciesCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	cmd := command.NewGroupCmd("policies", "Manage the governance policies that gateways enforce",
		`  svc policies templates
  svc policies add-template pii-protection --agent support-bot
  svc policies create only-data --phase request --condition tool_arguments --tool-name read_file --arguments '{"/path": {"not": {"path_within": "/srv/data"}}}' --action block
  svc policies create no-cards --phase response --condition pii_detected --entities CREDIT_CARD --action redact --redaction-strategy mask
  svc policies disable pol_01k…`,
		append(policies.Commands(r),
			newPolicySwitchCmd(r, "enable", "Enable a policy", true),
			newPolicySwitchCmd(r, "disable", "Disable a policy", false),
			newTemplatesCmd(r), newAddTemplateCmd(r))...)
	r.AddFlags(cmd)
	return cmd
}

// actionText shows an action in one cell: a policy with approval blocks until a person grants.
func actionText(p api.Policy) string {
	if p.Approval != nil {
		return p.Action + ", approval"
	}
	return p.Action
}

// conditionText shows a condition in one cell.
func conditionText(c api.Condition) string {
	switch {
	case c.Threshold != nil:
		return fmt.Sprintf("%s >= %s", c.Type, command.Number(*c.Threshold))
	case len(c.Entities) > 0:
		return c.Type + " " + strings.Join(c.Entities, ",")
	case len(c.LabelsAll)+len(c.LabelsAny) > 0:
		return strings.TrimSpace(c.Type + " " + c.Labels() + " " + c.ToolName)
	case len(c.Arguments) > 0:
		return c.Type + " " + c.ToolName + " " + string(c.Arguments)
	case c.ToolName != "":
		return c.Type + " " + c.ToolName
	}
	return c.Type
}

// policyFields are the fields of a policy as flags.
type policyFields struct {
	r      *rest.Connection
	cmd    *cobra.Command
	create bool

	name, phase, on, condition, action, strategy, message, toolName, arguments, argumentsFile string

	threshold                      *float64
	entities, labelsAll, labelsAny []string
	enabled                        *bool
	approval                       string
}

// Flags adds the flags. A new policy has defaults, an update changes only what is given.
func (p *policyFields) Flags(r *rest.Connection, cmd *cobra.Command) {
	p.r, p.cmd = r, cmd
	f := cmd.Flags()
	forAll, enabled := "", ""
	if p.create {
		forAll, enabled = ` (default "*")`, " (default true)"
	}
	f.StringVar(&p.name, "name", "", "name, unique")
	command.EnumFlag(cmd, &p.phase, "phase", api.Phases, "when the policy applies: to requests or to responses")
	f.StringVar(&p.on, "on", "", `name of an agent, or "*" for all`+forAll)
	rest.CompleteFlag(r, cmd, "on", completeAgentNames)
	command.EnumFlag(cmd, &p.condition, "condition", api.ConditionTypes, "condition under which the policy fires")
	f.Var(command.OptionalFloat{Value: &p.threshold}, "threshold", "for injection_score: lowest score that fires, from 0 to 1")
	f.StringSliceVar(&p.entities, "entities", nil, "for pii_detected: entities, comma-separated; none means any")
	if err := cmd.RegisterFlagCompletionFunc("entities", completeEntities); err != nil {
		panic(err) // only when registered twice
	}
	f.StringVar(&p.toolName, "tool-name", "", "for tool_name, tool_arguments and data_flow: name or glob of a tool")
	f.StringVar(&p.arguments, "arguments", "", "for tool_arguments: JSON object from JSON Pointers to matchers")
	f.StringVar(&p.argumentsFile, "arguments-file", "", `file with the JSON of --arguments, "-" for standard input`)
	cmd.MarkFlagsMutuallyExclusive("arguments", "arguments-file")
	f.StringSliceVar(&p.labelsAll, "labels-all", nil, "for data_flow: labels of which the caller has all, comma-separated")
	f.StringSliceVar(&p.labelsAny, "labels-any", nil, "for data_flow: labels of which the caller has at least one")
	command.EnumFlag(cmd, &p.action, "action", api.Actions, "action when the condition holds")
	command.EnumFlag(cmd, &p.strategy, "redaction-strategy", api.RedactionStrategies, "how redact replaces a match")
	f.StringVar(&p.message, "message", "", "message for the client when the policy blocks")
	f.StringVar(&p.approval, "approval", "", `for block of requests: a person may let a call pass; JSON object with validFor, expires, notSelf, show and note, or {}; null removes it`)
	command.BoolFlag(cmd, &p.enabled, "enabled", "whether the policy is enabled"+enabled)
	if p.create {
		command.RequireFlags(cmd, "phase", "condition", "action")
	}
}

// completeEntities completes the last one of several entities.
func completeEntities(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	var list []string
	for _, e := range api.Entities {
		if !slices.Contains(strings.Split(before, ","), e) {
			list = append(list, before+e)
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// conditionValue builds the condition; nil when its type was not given.
func (p *policyFields) conditionValue() (*api.Condition, error) {
	if p.condition == "" {
		for _, name := range []string{"threshold", "entities", "tool-name", "arguments", "arguments-file", "labels-all", "labels-any"} {
			if p.cmd.Flags().Changed(name) {
				return nil, command.Usagef("a condition is replaced as a whole", "--%s belongs to --condition", name)
			}
		}
		return nil, nil
	}
	k := &api.Condition{Type: p.condition, Threshold: p.threshold, Entities: p.entities, ToolName: p.toolName, LabelsAll: p.labelsAll, LabelsAny: p.labelsAny}
	var err error
	k.Arguments, err = p.argumentsValue()
	return k, err
}

// argumentsValue returns the condition on arguments, as JSON; nil without one.
func (p *policyFields) argumentsValue() (json.RawMessage, error) {
	text, source := []byte(p.arguments), "--arguments"
	if p.argumentsFile != "" {
		data, err := p.r.Env.ReadFile(p.argumentsFile)
		if err != nil {
			return nil, command.Usage(err, "")
		}
		text, source = data, p.argumentsFile
	}
	if len(text) == 0 && p.argumentsFile == "" && !p.cmd.Flags().Changed("arguments") {
		return nil, nil
	}
	if !json.Valid(text) {
		return nil, command.Usagef(`write {"/path": {"path_within": "/srv/data"}}, in single quotes for the shell`, "%s is not JSON", source)
	}
	return text, nil
}

// approvalValue returns the approval, and whether it is removed; nil when it was not given.
func (p *policyFields) approvalValue() (a *api.Approval, none bool, err error) {
	if !p.cmd.Flags().Changed("approval") {
		return nil, false, nil
	}
	d := json.NewDecoder(strings.NewReader(p.approval))
	d.DisallowUnknownFields()
	if err = d.Decode(&a); err == nil && d.More() {
		err = errors.New("there is more behind the object")
	}
	if err != nil {
		err = command.Usagef(`write {"validFor": "15m", "notSelf": "strict"}, or {} for the defaults, in single quotes for the shell`, "--approval: %v", err)
	}
	return a, a == nil, err
}

// Create creates the policy.
func (p *policyFields) Create(ctx context.Context, c *client.Client) (any, error) {
	condition, err := p.conditionValue()
	if err != nil {
		return nil, err
	}
	approval, _, err := p.approvalValue()
	if err != nil {
		return nil, err
	}
	return warned(p.r)(c.CreatePolicy(ctx, api.PolicyCreate{
		Name: p.name, Phase: p.phase, On: p.on, Condition: condition, Approval: approval,
		Action: p.action, RedactionStrategy: p.strategy, Message: p.message, Enabled: p.enabled,
	}))
}

// Update changes the fields whose flags were given.
func (p *policyFields) Update(ctx context.Context, c *client.Client, id string) (any, error) {
	condition, err := p.conditionValue()
	if err != nil {
		return nil, err
	}
	approval, none, err := p.approvalValue()
	if err != nil {
		return nil, err
	}
	return warned(p.r)(c.UpdatePolicy(ctx, id, api.PolicyUpdate{
		Approval: approval, NoApproval: none,
		Name: command.Changed(p.cmd, "name", &p.name), Phase: command.Changed(p.cmd, "phase", &p.phase), On: command.Changed(p.cmd, "on", &p.on),
		Condition: condition, Action: command.Changed(p.cmd, "action", &p.action),
		RedactionStrategy: command.Changed(p.cmd, "redaction-strategy", &p.strategy), Message: command.Changed(p.cmd, "message", &p.message), Enabled: p.enabled,
	}))
}

func newPolicySwitchCmd(r *rest.Connection, verb, short string, enabled bool) *cobra.Command {
	return policies.TakesName(r, rest.NewValueCmd(r, &cobra.Command{
		Use: verb + " ID", Short: short, Example: `  svc policies ` + verb + ` pol_01k…`,
		Args: command.WantArgs("an ID"), ValidArgsFunction: rest.CompleteIDs(r, policies.Complete),
	}, func(ctx context.Context, c *client.Client, args []string) (api.Policy, error) {
		return warned(r)(c.UpdatePolicy(ctx, args[0], api.PolicyUpdate{Enabled: &enabled}))
	}), nil)
}

// warned prints the warnings and returns the policy.
func warned(r *rest.Connection) func(api.Policy, error) (api.Policy, error) {
	return func(p api.Policy, err error) (api.Policy, error) {
		rest.WriteWarnings(r.Env, p.Warnings)
		return p, err
	}
}

func newTemplatesCmd(r *rest.Connection) *cobra.Command {
	return rest.NewListAllCmd(r, &cobra.Command{
		Use: "templates", Short: "List the templates that can be applied", Example: `  svc policies templates`,
	}, rest.Columns[api.PolicyTemplate]{
		Header: []string{"ID", "NAME", "POLICIES", "DESCRIPTION"},
		Row: func(t api.PolicyTemplate) []string {
			return []string{t.ID, t.Name, command.Count(int64(t.PolicyCount)), t.Description}
		},
	}, func(ctx context.Context, c *client.Client) (api.List[api.PolicyTemplate], error) {
		ts, err := c.ListPolicyTemplates(ctx)
		return api.List[api.PolicyTemplate]{Data: ts, Total: len(ts)}, err
	})
}

func completeTemplates(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.ListPolicyTemplates(ctx)
	return rest.Described(list, func(t api.PolicyTemplate) (string, string) { return t.ID, t.Name }), err
}

// suggestTemplate adds the most similar template to an error about one that does not exist.
func suggestTemplate(ctx context.Context, c *client.Client, name string, err error) error {
	list, other := c.ListPolicyTemplates(ctx)
	if other != nil || slices.ContainsFunc(list, func(t api.PolicyTemplate) bool { return t.ID == name }) {
		return err
	}
	var names []string
	for _, t := range list {
		names = append(names, t.ID)
	}
	if near := command.Nearest(name, names); near != "" {
		return command.Failed(err, "did you mean "+near+"?")
	}
	return command.Failed(err, "there are "+strings.Join(names, ", "))
}

func newAddTemplateCmd(r *rest.Connection) *cobra.Command {
	var in api.TemplateApply
	cmd := rest.NewValueCmd(r, &cobra.Command{
		Use: "add-template TEMPLATE", Short: "Create the policies of a template",
		Example: `  svc policies add-template pii-protection --agent support-bot`,
		Args:    command.WantArgs("a TEMPLATE"), ValidArgsFunction: rest.CompleteIDs(r, completeTemplates),
	}, func(ctx context.Context, c *client.Client, args []string) (api.TemplateApplied, error) {
		in.Template = args[0]
		applied, err := c.ApplyPolicyTemplate(ctx, in)
		rest.WriteWarnings(r.Env, applied.Warnings)
		if err != nil {
			return applied, suggestTemplate(ctx, c, in.Template, err)
		}
		return applied, nil
	})
	cmd.Flags().StringVar(&in.AgentName, "agent", "", `agent that they are for (default "*", all)`)
	rest.CompleteFlag(r, cmd, "agent", completeAgentNames)
	command.BoolFlag(cmd, &in.Enabled, "enabled", "whether the policies are enabled (default true)")
	return cmd
}
