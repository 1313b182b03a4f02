package policycmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/gateway/audit"
	"svc/gateway/policy/flow"
	"svc/server/client"
)

type whyOptions struct {
	rest   *rest.Connection
	audit  []string
	config string
	format command.Format
}

// NewWhyCmd returns the command 'svc why'.
func NewWhyCmd(env process.Env) *cobra.Command {
	o := whyOptions{rest: &rest.Connection{Env: env}, format: command.FormatText}
	cmd := &cobra.Command{
		Use:   "why ID",
		Short: "Explain the result of a request, and what to do about it",
		Long: `Explain a request: its caller and call, the decision with its rule or policy, the
error, and what to do. ID is the request id, which every error of a gateway has, or
the id of a trace.

Without --audit the trace is read from the control plane. A request that was refused
before its body was read has no trace. With --audit the request is read from audit
files and their rotated files instead, without a control plane; ID may then also be
the W3C trace id.

With --config the rule is shown with its file and line, the conditions that matched,
and the rules that almost matched. A trace does not have the arguments of the call or
the groups and scopes of its caller; conditions on them are reported as undecided.

Data-flow labels that the caller had are named with the last earlier call that set
each, from the audit files or the caller's newest 2,000 traces, within the window and
scope of --config; without it within 7 days.

The exit code is 0 when the request was found, whatever was decided, and 1 when it
was not.`,
		Example: `  svc why 01a2065b-030d-709a-97e1-418e3e5563b5
  svc why 01a2065b-030d-709a-97e1-418e3e5563b5 --audit /var/log/svc-gateway/audit.jsonl
  svc why 01a2065b-030d-709a-97e1-418e3e5563b5 --config svc.yaml -o json`,
		Args: command.WantArgs("an ID"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.audit, "audit", nil, "audit file to read instead of the control plane; may be repeated")
	f.StringVar(&o.config, "config", "", "gateway config with the rules of the decision")
	command.AddFormatFlag(cmd, &o.format, command.FormatText, command.FormatJSON)
	o.rest.AddFlags(cmd)
	return cmd
}

func (o *whyOptions) run(ctx context.Context, id string) error {
	env := o.rest.Env
	q, err := o.find(ctx, id)
	if err != nil {
		return err
	}
	why := explain(q)
	var dataFlow *flow.Config
	if o.config != "" {
		doc, file, err := LoadPolicy(env, o.config)
		if err != nil {
			return err
		}
		if why.Rules, err = rulesOf(doc, file, o.config, q); err != nil {
			return err
		}
		dataFlow = &file.DataFlow
	}
	if err := o.setBy(ctx, q, dataFlow); err != nil {
		return err
	}
	if o.format == command.FormatJSON {
		return command.WriteValue(env.Stdout, o.format, why)
	}
	return writeWhy(env.Stdout, why)
}

// find searches for the request in the audit files, or at the control plane.
func (o *whyOptions) find(ctx context.Context, id string) (*decidedRequest, error) {
	if len(o.audit) == 0 {
		return o.findTrace(ctx, id)
	}
	for _, path := range o.audit {
		q, err := findLine(ctx, path, id)
		if err != nil || q != nil {
			return q, err
		}
	}
	return nil, command.Failed(fmt.Errorf("no line has the request id or trace id %q", id),
		"the line may be in a file that was rotated away, or of another gateway")
}

// findLine returns the last line of a request in an audit log, which is that of its end.
func findLine(ctx context.Context, path, id string) (*decidedRequest, error) {
	if _, err := audit.Before(path, 0); err != nil {
		return nil, command.Usage(err, "name the file that audit.path of the gateway names")
	}
	reader := audit.NewReader(path, audit.Position{})
	defer reader.Close()
	var found *decidedRequest
	for ctx.Err() == nil {
		line, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, command.Usage(err, "")
		}
		var r audit.Record
		if audit.Decode(line.Bytes, &r) != nil || r.RequestID != id && r.TraceID != id || id == "" ||
			r.Kind != audit.KindRequest && r.Kind != audit.KindOpen && r.Kind != "" {
			continue
		}
		found = ofLine(&r)
	}
	return nil, ctx.Err()
}

func (o *whyOptions) findTrace(ctx context.Context, id string) (*decidedRequest, error) {
	c, err := o.rest.Client()
	if err != nil {
		return nil, err
	}
	t, err := c.GetTrace(ctx, id)
	var e *client.Error
	if err == nil {
		return ofTrace(&t), nil
	}
	if !errors.As(err, &e) || e.Status != http.StatusNotFound {
		return nil, o.rest.Explain(err)
	}
	page, err := c.ListTraces(ctx, client.TraceQuery{Page: client.Page{Limit: 1}, TraceFilter: client.TraceFilter{RequestID: id}})
	if err != nil {
		return nil, o.rest.Explain(err)
	}
	if len(page.Data) == 0 {
		return nil, command.Failed(fmt.Errorf("no trace has the id or request id %q", id),
			"requests that are refused before they are read have no trace: name the gateway's audit file with --audit")
	}
	if t, err = c.GetTrace(ctx, page.Data[0].ID); err != nil {
		return nil, o.rest.Explain(err)
	}
	return ofTrace(&t), nil
}
