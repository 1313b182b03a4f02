package planecmd

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/client"
	"svc/store/api"
)

var webhooks = rest.Resource[api.Webhook]{
	Noun: "webhook", Path: "svc webhooks", ID: "whk_01k…",
	Describe: func(h api.Webhook) (string, string) { return h.ID, h.Name },
	Columns: rest.Columns[api.Webhook]{
		Header: []string{"ID", "NAME", "URL", "FORMAT", "EVENTS", "STATE", "WAITING"},
		Row: func(h api.Webhook) []string {
			return []string{h.ID, h.Name, h.URL, h.Format, strings.Join(h.Events, ","), webhookState(h), strconv.Itoa(h.Waiting)}
		},
		WideHeader: []string{"ENVIRONMENT", "AGENT", "TEAM", "URL DIGEST"},
		WideRow:    func(h api.Webhook) []string { return []string{h.Environment, h.AgentName, h.TeamID, h.URLDigest} },
	},
	Fetch: func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.Webhook], error) {
		return c.ListWebhooks(ctx, p)
	},
	Get:    rest.GetBy((*client.Client).GetWebhook, func(h api.Webhook) string { return h.Name }),
	Create: func() rest.Creator { return &webhookFields{create: true} },
	Update: func() rest.Updater { return &webhookFields{} },
	Delete: rest.Deleted((*client.Client).DeleteWebhook),

	ListHelp: rest.Help{Short: "List webhooks, newest first", Example: `  svc webhooks list -o wide`},
	GetHelp:  rest.Help{Short: "Show one webhook; its URL is shortened", Example: `  svc webhooks get on-call`},
	CreateHelp: rest.Help{Short: "Create a webhook; its signing secret is shown once", Example: `  svc webhooks create on-call --url-file url.txt --events approval.requested,budget.exceeded
  svc webhooks create slack --url-file - --format slack --events approval.requested < url.txt`},
	UpdateHelp: rest.Help{Short: "Change a webhook; fields without a flag keep their values", Example: `  svc webhooks update on-call --events approval.requested,sla.breached
  svc webhooks update on-call --enabled=false`},
}

func webhookState(h api.Webhook) string {
	switch {
	case !h.Enabled:
		return "disabled"
	case h.FailingSince != nil:
		return "failing since " + command.Stamp(*h.FailingSince)
	}
	return "enabled"
}

// NewWebhooksCmd returns the command 'svc webhooks'.
func NewWebhooksCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	cmds := append(webhooks.Commands(r), newDeliveriesCmd(r),
		rest.NewValueCmd(r, webhooks.TakesID(r, "rotate-secret ID", rest.Help{Short: "Make a new signing secret and show it once",
			Long:    "Make a new signing secret and show it once. For 24 hours messages are signed with the\nprevious secret too.",
			Example: `  svc webhooks rotate-secret on-call`}),
			func(ctx context.Context, c *client.Client, args []string) (api.Webhook, error) {
				return c.RotateWebhookSecret(ctx, args[0])
			}),
		newDeliveryCmd(r, webhooks.TakesID(r, "test ID", rest.Help{Short: "Send a message of the type webhook.test",
			Example: `  svc webhooks test on-call`}),
			func(ctx context.Context, c *client.Client, args []string) (api.Delivery, error) {
				return c.TestWebhook(ctx, args[0])
			}),
		newRedeliverCmd(r))
	cmd := command.NewGroupCmd("webhooks", "Manage webhooks, which get messages about events",
		`  svc webhooks create on-call --url-file url.txt --events approval.requested
  svc webhooks test on-call
  svc webhooks deliveries on-call --state failed`, cmds...)
	r.AddFlags(cmd)
	return cmd
}

// webhookFields are the fields of a webhook as flags.
type webhookFields struct {
	r      *rest.Connection
	cmd    *cobra.Command
	create bool

	name, urlFile, format, environment, agent string
	events                                    []string
	enabled                                   *bool
}

// Flags adds the flags.
func (h *webhookFields) Flags(r *rest.Connection, cmd *cobra.Command) {
	h.r, h.cmd = r, cmd
	f := cmd.Flags()
	f.StringVar(&h.name, "name", "", "name, unique")
	f.StringVar(&h.urlFile, "url-file", "", `file with the https URL of the receiver, which is a secret; "-" for standard input`)
	f.StringSliceVar(&h.events, "events", nil, "types of events, comma-separated: "+strings.Join(api.EventTypes, ", "))
	command.EnumFlag(cmd, &h.format, "format", api.WebhookFormats, "of the messages (default json)")
	f.StringVar(&h.environment, "environment", "", "only events of this environment")
	f.StringVar(&h.agent, "agent-id", "", "only events of this agent")
	command.BoolFlag(cmd, &h.enabled, "enabled", "whether messages are sent")
	agents.CompleteFlag(r, cmd, "agent-id")
	if h.create {
		command.RequireFlags(cmd, "events", "url-file")
	}
	if err := cmd.RegisterFlagCompletionFunc("events", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return api.EventTypes, cobra.ShellCompDirectiveNoFileComp
	}); err != nil {
		panic(err) // fails only when the flag is registered twice
	}
}

// readURL returns the URL in the file that was named, nil without one.
func (h *webhookFields) readURL() (*string, error) {
	if h.urlFile == "" {
		return nil, nil
	}
	text, err := h.r.Env.ReadFile(h.urlFile)
	if err != nil {
		return nil, command.Usage(err, "")
	}
	url := strings.TrimSpace(string(text))
	return &url, nil
}

// Create creates the webhook.
func (h *webhookFields) Create(ctx context.Context, c *client.Client) (any, error) {
	url, err := h.readURL()
	if err != nil {
		return nil, err
	}
	return c.CreateWebhook(ctx, api.WebhookCreate{Name: h.name, URL: *url, Events: h.events, Format: h.format,
		Environment: h.environment, AgentID: h.agent, Enabled: h.enabled})
}

// Update changes the fields whose flags were given.
func (h *webhookFields) Update(ctx context.Context, c *client.Client, id string) (any, error) {
	url, err := h.readURL()
	if err != nil {
		return nil, err
	}
	in := api.WebhookUpdate{Name: command.Changed(h.cmd, "name", &h.name), URL: url, Format: command.Changed(h.cmd, "format", &h.format),
		Environment: command.Changed(h.cmd, "environment", &h.environment), AgentID: command.Changed(h.cmd, "agent-id", &h.agent), Enabled: h.enabled}
	if h.cmd.Flags().Changed("events") {
		events := api.WebhookCreate{Events: h.events}.Events
		in.Events = &events
	}
	return c.UpdateWebhook(ctx, id, in)
}

var deliveryColumns = rest.Columns[api.Delivery]{
	Header: []string{"ID", "EVENT", "SUBJECT", "STATE", "ATTEMPTS", "STATUS", "NEXT", "ERROR"},
	Row: func(d api.Delivery) []string {
		status, next := "-", "-"
		if d.Status != 0 {
			status = strconv.Itoa(d.Status)
		}
		switch {
		case d.NextAt == nil:
		case d.NextAt.Before(time.Now()): // earlier messages come first, or the webhook is disabled
			next = "due"
		default:
			next = command.Stamp(*d.NextAt)
		}
		return []string{d.ID, d.Event.Type, d.Event.Subject.Name, d.State, strconv.Itoa(d.Attempts), status, next, d.Error}
	},
}

func newDeliveriesCmd(r *rest.Connection) *cobra.Command {
	var id string
	var q client.DeliveryQuery
	cmd := rest.NewListCmd(r, &cobra.Command{
		Use: "deliveries ID", Short: "List the messages of a webhook of the last seven days, newest first",
		Example: `  svc webhooks deliveries on-call --state failed`,
		Args:    command.WantArgs("an ID"), ValidArgsFunction: rest.CompleteIDs(r, webhooks.Complete),
	}, deliveryColumns, func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.Delivery], error) {
		q.Page = p
		return c.ListDeliveries(ctx, id, q)
	})
	command.EnumFlag(cmd, &q.State, "state", api.DeliveryStates, "only messages in this state")
	return webhooks.TakesName(r, cmd, &id)
}

// newDeliveryCmd returns a command that queues a message and shows which.
func newDeliveryCmd(r *rest.Connection, cmd *cobra.Command, do func(context.Context, *client.Client, []string) (api.Delivery, error)) *cobra.Command {
	return rest.NewValueCmd(r, cmd, func(ctx context.Context, c *client.Client, args []string) (api.Delivery, error) {
		d, err := do(ctx, c, args)
		if err == nil {
			r.Note("queued; 'svc webhooks deliveries %s' shows the result", args[0])
		}
		return d, err
	})
}

func newRedeliverCmd(r *rest.Connection) *cobra.Command {
	cmd := webhooks.TakesID(r, "redeliver ID DELIVERY", rest.Help{Short: "Send a message that was delivered or failed once more",
		Example: `  svc webhooks redeliver on-call dlv_01k…`})
	cmd.Args = command.WantArgs("an ID", "the id of a DELIVERY")
	return newDeliveryCmd(r, cmd, func(ctx context.Context, c *client.Client, args []string) (api.Delivery, error) {
		return c.Redeliver(ctx, args[0], args[1])
	})
}
