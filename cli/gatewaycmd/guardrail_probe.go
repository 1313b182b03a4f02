package gatewaycmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/base/diag"
	"svc/gateway/config"
	"svc/gateway/policy/guardrail"
)

// probedEndpoint is one element of the output of 'svc guardrail probe -o json'.
type probedEndpoint struct {
	Name      string  `json:"name"`
	Reachable bool    `json:"reachable"`
	Status    int     `json:"status,omitempty"`
	LatencyMS float64 `json:"latency_ms"`
	Error     string  `json:"error,omitempty"`
}

func NewGuardrailCmd(env process.Env) *cobra.Command {
	return command.NewGroupCmd("guardrail", "Manage guardrails",
		`  svc guardrail probe /etc/svc/svc.yaml`,
		newGuardrailProbeCmd(env), newGuardrailServeCmd(env))
}

func newGuardrailProbeCmd(env process.Env) *cobra.Command {
	f := command.FormatTable
	cmd := &cobra.Command{
		Use:   "probe FILE",
		Short: "Check that every guardrail can be reached",
		Long: `Send a plain GET to each endpoint under guardrails of a gateway config, within
the endpoint's own timeout. A response with a status below 500 means reachable.
The static headers are not attached, and redirects are not followed. The
probe neither reads nor changes the circuit breakers of a running gateway.

The exit code is 1 when an endpoint is unreachable, and 2 when an endpoint could not
be checked because the config has errors or names certificates that cannot be read.`,
		Example: `  svc guardrail probe /etc/svc/svc.yaml
  svc guardrail probe svc.yaml -o json`,
		Args: command.WantArgs("a FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return probeGuardrails(cmd.Context(), env, args[0], f)
		},
	}
	command.AddFormatFlag(cmd, &f, command.FormatTable, command.FormatJSON)
	return cmd
}

func probeGuardrails(ctx context.Context, env process.Env, path string, f command.Format) error {
	file, found := config.Load(path, env.LookupEnv)
	if file == nil {
		if err := diag.WriteText(env.Stderr, found); err != nil {
			return err
		}
		return &command.ExitError{Err: command.ErrReported, Code: command.ExitUsage}
	}
	probed := guardrail.Probe(ctx, file.Guardrails, env.Now)
	if err := writeProbed(env, probed, f); err != nil {
		return err
	}
	if len(probed) == 0 {
		fmt.Fprintf(env.Stderr, "%s defines no guardrails\n", path)
	}
	unreachable, unchecked := 0, 0
	for _, p := range probed {
		switch {
		case p.Unchecked:
			unchecked++
		case !p.Reachable():
			unreachable++
		}
	}
	switch {
	case unchecked > 0:
		return &command.ExitError{Err: command.ErrReported, Code: command.ExitUsage}
	case unreachable > 0:
		return command.ErrReported
	}
	return nil
}

func writeProbed(env process.Env, probed []guardrail.Probed, f command.Format) error {
	if f == command.FormatJSON {
		list := make([]probedEndpoint, len(probed))
		for i, p := range probed {
			list[i] = probedEndpoint{Name: p.Name, Reachable: p.Reachable(), Status: p.Status,
				LatencyMS: float64(p.Latency.Microseconds()) / 1000}
			if p.Err != nil {
				list[i].Error = p.Err.Error()
			}
		}
		return command.WriteValue(env.Stdout, f, list)
	}
	if len(probed) == 0 {
		return nil
	}
	rows := make([][]string, len(probed))
	for i, p := range probed {
		rows[i] = []string{p.Name, probedStatus(p), p.Latency.Round(10 * time.Microsecond).String()}
		if p.Unchecked {
			rows[i][2] = "-"
		}
	}
	return command.ShowTable(env, []string{"ENDPOINT", "STATUS", "LATENCY"}, rows)
}

func probedStatus(p guardrail.Probed) string {
	switch {
	case p.Unchecked:
		return "not checked: " + p.Err.Error()
	case errors.Is(p.Err, context.Canceled):
		return "unreachable: canceled"
	case p.Err != nil:
		return "unreachable: " + p.Err.Error()
	}
	text := strconv.Itoa(p.Status)
	if name := http.StatusText(p.Status); name != "" {
		text += " " + name
	}
	text += p.Redirect
	if !p.Reachable() {
		return "unreachable: " + text
	}
	return text
}
