package policycmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/check"
	"svc/gateway/config"
	"svc/gateway/policy"
)

type explainOptions struct {
	file                  string
	tool, method          string
	direction             string
	resultType, arguments string
	request               string
	key, subject          string
	upstream              string
	groups, scopes        []string
	restores, unreadable  []string
	after                 []string
	hasToken              bool // whether a flag about a token was given
	format                command.Format
}

func newPolicyExplainCmd(env process.Env) *cobra.Command {
	o := explainOptions{format: command.FormatText, direction: policy.ClientToServer.String()}
	cmd := &cobra.Command{
		Use:   "explain FILE",
		Short: "Show which rule decides a request, and why the other rules do not",
		Long: `Evaluate one request against the rules of a gateway config. Describe the request with
flags, or give a whole JSON-RPC message with --request. The output is the rule that
decides, the reason why each rule above it does not match, and the upstream of the
request.

With --subject, --group, --scope or --unreadable the caller has an OAuth token; with
--key it has that API key of the config. Without any of them the caller is unauthenticated. Nothing
is sent: guardrails are not called and rate limits do not count. Policies of the
control plane are not part of the config and are not evaluated.

The exit code is 0 whatever the decision, and 2 when the flags do not describe a
request or the config has errors.`,
		Example: `  svc policy explain svc.yaml --tool delete_order
  svc policy explain svc.yaml --tool search --subject alice --group staff --scope mcp
  svc policy explain svc.yaml --tool mail_send --after web_get,crm_find
  svc policy explain svc.yaml --method elicitation/create --direction server_to_client
  svc policy explain svc.yaml --request call.json --key build-bot -o json`,
		Args:              command.WantArgs("a FILE"),
		ValidArgsFunction: completeConfig,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			for _, name := range []string{"subject", "group", "scope", "unreadable"} {
				o.hasToken = o.hasToken || cmd.Flags().Changed(name)
			}
			return explainPolicy(env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.tool, "tool", "", "tool of a tools/call")
	f.StringVar(&o.method, "method", "", "JSON-RPC method (default tools/call)")
	command.EnumFlag(cmd, &o.direction, "direction", []string{policy.ClientToServer.String(), policy.ServerToClient.String()}, "who sends the message")
	f.StringVar(&o.resultType, "result-type", "", "result type of a response, such as input_required")
	f.StringVar(&o.upstream, "upstream", "", "upstream of the message (default the upstream that routes and prefixes select)")
	f.StringSliceVar(&o.restores, "restores", nil, "entity of a value that was put back in place of a token; may be repeated")
	f.StringSliceVar(&o.after, "after", nil, "tool that the caller has called before, whose answer sets labels (data_flow); may be repeated")
	f.StringVar(&o.arguments, "arguments", "", "arguments of the tool, as JSON")
	f.StringVar(&o.request, "request", "", "file with a whole JSON-RPC message, \"-\" for standard input")
	f.StringVar(&o.key, "key", "", "id of the API key that the caller presents")
	f.StringVar(&o.subject, "subject", "", "subject of the caller's token")
	f.StringSliceVar(&o.groups, "group", nil, "group of the caller; may be repeated")
	f.StringSliceVar(&o.scopes, "scope", nil, "scope of the caller's token; may be repeated")
	f.StringSliceVar(&o.unreadable, "unreadable", nil, "groups, scopes or subject, if the token has it in no readable form; may be repeated")
	command.AddFormatFlag(cmd, &o.format, command.FormatText, command.FormatJSON)
	cmd.MarkFlagsMutuallyExclusive("request", "tool")
	cmd.MarkFlagsMutuallyExclusive("request", "method")
	cmd.MarkFlagsMutuallyExclusive("request", "arguments")
	cmd.MarkFlagsMutuallyExclusive("request", "result-type")
	for _, name := range []string{"subject", "group", "scope", "unreadable"} {
		cmd.MarkFlagsMutuallyExclusive("key", name)
	}
	completeFromConfig(cmd, env, "key", func(f *config.File) (ids []string) {
		for _, k := range f.Auth.Keys {
			ids = append(ids, k.ID)
		}
		return ids
	})
	completeFromConfig(cmd, env, "upstream", func(f *config.File) (names []string) {
		for i := range f.Upstreams {
			names = append(names, f.Upstreams[i].Name)
		}
		return names
	})
	completeFromConfig(cmd, env, "method", func(f *config.File) (methods []string) {
		for _, r := range f.Policy.Rules {
			if r.When != nil && r.When.Method != "" {
				methods = append(methods, r.When.Method)
			}
		}
		return methods
	})
	completeFromConfig(cmd, env, "tool", func(f *config.File) (tools []string) {
		for _, r := range f.Policy.Rules {
			if r.When != nil {
				tools = append(tools, r.When.ToolNameIn...)
				if name := r.When.ToolName; name != nil && *name != "*" {
					tools = append(tools, *name)
				}
			}
		}
		return tools
	})
	completeFromConfig(cmd, env, "group", func(f *config.File) (groups []string) {
		for _, r := range f.Policy.Rules {
			if r.When != nil && r.When.Claims != nil {
				groups = append(append(groups, r.When.Claims.Groups...), r.When.Claims.GroupsIn...)
			}
		}
		return groups
	})
	return cmd
}

func explainPolicy(env process.Env, o explainOptions) error {
	doc, engine, err := loadEngine(env, o.file)
	if err != nil {
		return err
	}
	d := policy.ClientToServer
	if o.direction == policy.ServerToClient.String() {
		d = policy.ServerToClient
	}
	body, err := o.message(env, d)
	if err != nil {
		return command.Usage(err, "see 'svc policy explain --help'")
	}
	if o.key != "" && !engine.KnowsKey(o.key) {
		return command.Usagef("the keys are those of auth.keys in "+o.file, "no key has the id %q", o.key)
	}
	var claims *policy.Claims
	if o.hasToken {
		claims = &policy.Claims{Subject: o.subject, Groups: o.groups, Scopes: o.scopes}
		for _, name := range o.unreadable {
			if !claims.Unreadable.Add(name) {
				return command.Usagef("use groups, scopes or subject", "--unreadable: no condition is on %q", name)
			}
		}
	}
	var before []check.RequestSpec
	for _, tool := range o.after {
		before = append(before, check.RequestSpec{Tool: tool})
	}
	labels, err := engine.After(before, claims)
	if err != nil {
		return command.Usage(err, "--after takes names of tools")
	}
	a, err := engine.Ask(body, d, claims, check.Given{Upstream: o.upstream, Restored: o.restores, Labels: labels})
	if err != nil {
		return command.Usage(err, "see 'svc policy explain --help'")
	}
	if o.format == command.FormatJSON {
		out := struct {
			explained
			Body json.RawMessage `json:"body,omitempty"`
		}{explainedOf(doc, a), nil}
		if a.Decision.Action == policy.Redact && a.Body != nil {
			out.Body = a.Body
		}
		return command.WriteValue(env.Stdout, o.format, out)
	}
	return writeExplained(env.Stdout, doc, o, a, claims)
}

// message returns the message to evaluate.
func (o *explainOptions) message(env process.Env, d policy.Direction) ([]byte, error) {
	if o.request != "" {
		return env.ReadFile(o.request)
	}
	m := check.Message{Tool: o.tool, Method: o.method, Direction: d, ResultType: o.resultType}
	if o.arguments != "" {
		if !json.Valid([]byte(o.arguments)) {
			return nil, fmt.Errorf("--arguments is not JSON: %q", o.arguments)
		}
		m.Arguments = []byte(o.arguments)
	}
	return m.Encode()
}

func writeExplained(w io.Writer, doc *config.Document, o explainOptions, a *check.Answer, claims *policy.Claims) error {
	q := &a.Request
	what := q.Method
	switch {
	case q.HasTool:
		what += fmt.Sprintf(" %q", q.Tool)
	case what == "" && q.ResultType != "":
		what = "answer of result type " + q.ResultType
	case what == "":
		what = "answer"
	}
	fmt.Fprintf(w, "request:  %s, %s\n", command.Clean(what), q.Direction)
	fmt.Fprintf(w, "caller:   %s\n", command.Clean(callerWords(o.key, claims)))
	if len(o.after) > 0 {
		fmt.Fprintf(w, "labels:   %s, after %s\n", cmp.Or(strings.Join(a.Labels, ", "), "none"), command.Clean(strings.Join(o.after, ", ")))
	}
	fmt.Fprintf(w, "decision: %s\n", command.Clean(decided(&a.Decision)))
	if a.Route.Upstream != "" {
		fmt.Fprintf(w, "goes to:  upstream %q (%s)\n\n", a.Route.Upstream, command.Clean(a.Route.Reason))
	} else {
		fmt.Fprintf(w, "goes to:  no upstream: %s\n\n", command.Clean(a.Route.Reason))
	}
	if err := command.WriteTable(w, []string{"", "RULE", "LINE", "WHY"}, stepRows(a, doc)); err != nil {
		return err
	}
	if a.Decision.Action == policy.Redact && a.Body != nil {
		fmt.Fprintf(w, "\nafter redaction:\n%s\n", command.Clean(string(a.Body)))
	}
	return nil
}
