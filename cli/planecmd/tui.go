package planecmd

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/gateway/audit"
	"svc/server/client"
	"svc/tui"
)

type tuiOptions struct {
	rest.Connection
	audit   string
	filter  string
	theme   string
	noMouse bool
}

func NewTUICmd(env process.Env) *cobra.Command {
	o := &tuiOptions{Connection: rest.Connection{Env: env}, theme: string(tui.Auto)}
	cmd := &cobra.Command{
		Use:   "tui",
		Short: "Watch traces live in the terminal, with statistics, policies and budgets",
		Long: `Watch new traces, open a trace to see its spans, filter while you type, and view
statistics, agents, policies, budgets and SLA targets. Press ? for the keys; the mouse
wheel and clicks work too.

When the control plane is unavailable, svc tui shows that, reconnects by itself
and continues without a gap. With --audit it follows an audit file of a gateway
instead, through rotations, and needs no control plane and no key.

A filter is a list of words that must all match: agent:support status:error,blocked
tool:"delete order" -env:staging ms:>500 since:2h refund`,
		Example: `  SVC_URL=https://svc.example.com SVC_API_KEY=svc_api_… svc tui
  svc tui --filter 'status:blocked'
  svc tui --filter 'since:yesterday until:yesterday status:error'
  svc tui --audit /var/log/svc/audit.jsonl`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.audit, "audit", "", "follow this audit file instead of a control plane")
	f.StringVar(&o.filter, "filter", "", "filter at the start")
	command.EnumFlag(cmd, &o.theme, "theme", []string{string(tui.Auto), string(tui.Dark), string(tui.Light)}, "background of the terminal")
	f.BoolVar(&o.noMouse, "no-mouse", false, "do not use the mouse, so that the terminal can select text")
	for _, name := range []string{"url", "api-key", "filter", "timeout"} {
		if err := cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions); err != nil {
			panic(err) // only when registered twice
		}
	}
	return cmd
}

func (o *tuiOptions) run(ctx context.Context) error {
	env := o.Env
	if !env.StdinTTY || !env.StdoutTTY || env.Getenv("TERM") == "dumb" {
		return command.Usagef("for programs there are 'svc traces list -o json' and GET /api/traces/stream", "svc tui needs a terminal to draw on")
	}
	if err := tui.CheckFilter(o.filter); err != nil {
		return command.Usagef("such as --filter 'agent:support status:error'", "--filter: %v", err)
	}
	t := tui.Options{
		Input: env.Stdin, Output: env.Stdout,
		Colour: env.Colour(env.StdoutTTY), Theme: tui.Theme(o.theme), Mouse: !o.noMouse,
		Copy: func(text string) error { return copyToClipboard(env.Stdout, text) },
		Now:  env.Now, Timeout: o.Timeout, Filter: o.filter,
	}
	var err error
	if o.audit != "" {
		err = o.watchFile(&t)
	} else {
		err = o.watchPlane(ctx, &t)
	}
	if err != nil {
		return err
	}
	return tui.Run(ctx, t)
}

// watchFile sets up the screen for an audit file.
func (o *tuiOptions) watchFile(t *tui.Options) error {
	if _, err := audit.Before(o.audit, 1); err != nil {
		return command.Usage(err, "name the file that audit.path of the gateway names")
	}
	t.Source, t.Name = auditSource{path: o.audit, poll: auditPoll}, o.audit
	return nil
}

// watchPlane sends one request before the screen is switched, so that errors
// appear on the command line.
func (o *tuiOptions) watchPlane(ctx context.Context, t *tui.Options) error {
	c, err := o.Client()
	if err != nil {
		return err
	}
	slow := time.AfterFunc(time.Second, func() { fmt.Fprintf(o.Env.Stderr, "waiting for %s; Ctrl-C ends it\n", command.Clean(o.Address())) })
	_, err = c.ListTraces(ctx, client.TraceQuery{Page: client.Page{Limit: 1}})
	slow.Stop()
	var answer *client.Error
	if errors.As(err, &answer) && answer.Status == 429 {
		err = nil // the control plane exists, and the stream will retry
	}
	if err != nil {
		return o.Explain(err)
	}
	t.Source, t.Plane, t.Name = tui.Live(c), c, o.Address()
	return nil
}

// maxClipboard bounds the text for the clipboard, because terminals have such
// a limit.
const maxClipboard = 64 << 10

// copyToClipboard sends a text to the terminal's clipboard (OSC 52), which
// also works over SSH.
func copyToClipboard(w io.Writer, text string) error {
	if len(text) > maxClipboard {
		return errors.New("it is longer than a terminal takes")
	}
	_, err := io.WriteString(w, "\x1b]52;c;"+base64.StdEncoding.EncodeToString([]byte(text))+"\x07")
	return err
}
