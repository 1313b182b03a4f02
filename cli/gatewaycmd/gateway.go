package gatewaycmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/daemon"
	"svc/cli/policycmd"
	"svc/cli/process"
	"svc/gateway"
	"svc/gateway/audit"
	"svc/gateway/base/diag"
	"svc/gateway/check"
	"svc/gateway/config"
	"svc/server/client"
)

type gatewayOptions struct {
	config      string
	check       bool
	probe       bool
	tokenEnv    string
	requireAuth bool
	reportFrom  time.Time
	format      command.Format
	log         command.LogOptions
}

func NewGatewayCmd(env process.Env) *cobra.Command {
	o := gatewayOptions{format: command.FormatText}
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Run the MCP gateway",
		Long: `Run the gateway between MCP clients and their tool servers. Its config
is one YAML file, which is validated as a whole at the start and again on SIGHUP.
If the file has errors, a reload changes nothing.

--check reads the same files as a start: the config, its variables (also from the
directory credentials-gateway beside it, where the packaged unit finds its
credentials), the license, keys and certificates, and checks that the audit file
and state_dir can be written, so run it as the user of the gateway. It opens no
connection.
With --probe it also sends each upstream, guardrail, issuer, Redis and the control
plane the requests of a starting gateway. It prints the result of each probe, and
for a failure the cause and what to do. The probe changes nothing and pins no tool.
For an upstream with credentials.token_exchange or id_jag, --token-env names the
variable that has the token of a caller; for id_jag this is an ID token.

SVC_CONFIG, SVC_LOG_FORMAT, SVC_LOG_LEVEL and SVC_REQUIRE_AUTH set the flags of
the same names; a flag overrides its variable.

With --report-from the gateway reports again what its audit files have since that
time, which a control plane that lost data lacks. What it has is not stored twice.

SIGTERM and SIGINT drain: /readyz turns 503, and requests in flight may finish
within shutdown.grace. A second signal ends at once.`,
		Example: `  svc gateway --config /etc/svc/svc.yaml
  svc gateway --config svc.yaml --check
  svc gateway --config svc.yaml --check --probe`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.ResolveEnvironment(env, cmd.Flags()); err != nil {
				return err
			}
			o.config, _ = command.ConfigPath(env, cmd.Flags(), config.DefaultPath)
			if cmd.Flags().Changed("output") && !o.check {
				return command.Usagef("add --check", "-o is for --check")
			}
			if o.probe && !o.check {
				return command.Usagef("add --check", "--probe is for --check")
			}
			if o.tokenEnv != "" && !o.probe {
				return command.Usagef("add --check --probe", "--token-env is for --probe")
			}
			if o.reportFrom.After(env.Now()) {
				return command.Usagef("give a time in the past", "--report-from lies in the future: %s", o.reportFrom.Format(time.RFC3339))
			}
			if o.check && !o.reportFrom.IsZero() {
				return command.Usagef("leave out --check", "--report-from is for a start")
			}
			if o.probe {
				return probeGateway(cmd.Context(), env, o, false)
			}
			if o.check {
				return checkGateway(cmd.Context(), env, o)
			}
			return runGateway(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.config, "config", config.DefaultPath, "configuration file")
	f.BoolVar(&o.check, "check", false, "check the config and the files that it names, print the findings and exit")
	f.BoolVar(&o.probe, "probe", false, "with --check, also send requests to the servers that the file names, and print each result")
	addTokenEnv(cmd, &o.tokenEnv)
	f.Var(command.TimeValue{Value: &o.reportFrom, Now: env.Now}, "report-from", "at this start, report the requests since then to the control plane again: a time, a date, or how long ago (1h, 7d)")
	f.BoolVar(&o.requireAuth, "require-auth", false, "refuse a configuration with authentication off")
	o.log.AddFlags(cmd)
	command.AddFormatFlag(cmd, &o.format, command.FormatText, command.FormatJSON)
	return cmd
}

// loadGateway reads the file in the same way for the start and for reloads.
func loadGateway(env process.Env, o gatewayOptions) (*config.File, []diag.Finding) {
	file, found := config.Load(o.config, env.LookupEnv)
	if file != nil && o.requireAuth && !file.Auth.Enabled {
		found = append(found, diag.Finding{
			Code: "auth-required", Path: "auth.enabled", Pos: diag.Pos{File: o.config},
			Message: "authentication is off, and --require-auth is given",
			Hint:    "set auth.enabled to true and list keys; 'svc keygen' makes them",
		})
		file = nil
	}
	return file, found
}

// unreadable reports whether the file could not be read.
func unreadable(found []diag.Finding) bool {
	return len(found) == 1 && found[0].Code == "unreadable"
}

// readAll reads what a start reads, and makes no connections.
func readAll(ctx context.Context, env process.Env, o gatewayOptions) (*config.File, []diag.Finding) {
	file, found := loadGateway(env, o)
	if file != nil {
		doc := policycmd.ReadDocument(env, o.config, config.Options{Files: true})
		found = append(found, check.AtCheck(doc, env.Now())...)
		found = append(found, doc.Complete(check.Check(ctx, file, check.PreflightOptions{
			LicenseKey: env.Build.LicensePEM(), Now: env.Now, Local: true,
		}))...)
	}
	return file, found
}

// checkGateway writes what is wrong with what a start reads.
func checkGateway(ctx context.Context, env process.Env, o gatewayOptions) error {
	env.LookupEnv = unitCredentials(env, o.config)
	file, found := readAll(ctx, env, o)
	write := diag.WriteText
	if o.format == command.FormatJSON {
		write = diag.WriteJSON
	}
	if err := write(env.Stdout, found); err != nil {
		return err
	}
	switch {
	case unreadable(found):
		return &command.ExitError{Err: command.ErrReported, Code: command.ExitUsage}
	case file == nil || diag.HasErrors(found):
		return command.ErrReported
	}
	fmt.Fprintf(env.Stderr, "%s is valid\n", o.config)
	fmt.Fprintln(env.Stderr, "not checked: whether the servers that it names work (add --probe), and what another user than this one may read")
	return nil
}

// unitCredentials reads the variables that systemd passes as credentials to the
// packaged unit of the gateway, when systemd has not done so: from the directory
// credentials-gateway next to the configuration.
func unitCredentials(env process.Env, path string) func(string) (string, bool) {
	dir := filepath.Join(filepath.Dir(path), "credentials-gateway")
	if env.Getenv("CREDENTIALS_DIRECTORY") != "" || !env.Exists(dir) {
		return env.LookupEnv
	}
	fmt.Fprintf(env.Stderr, "variables that are not set here are read from %s, as the unit svc-gateway gets them\n", dir)
	return process.WithDirectory(env.LookupEnv, dir, func(err error) {
		fmt.Fprintf(env.Stderr, "a credential cannot be read: %v\n", err)
	})
}

func runGateway(ctx context.Context, env process.Env, o gatewayOptions) error {
	log, err := o.log.Logger(env)
	if err != nil {
		return err
	}
	// Registered before the first load, so that a SIGHUP meanwhile is neither lost
	// nor ends the process.
	signals, stop := env.Signals()
	defer stop()

	file, found := loadGateway(env, o)
	if err := diag.WriteText(env.Stderr, found); err != nil {
		return err
	}
	if unreadable(found) {
		return &command.ExitError{Err: command.ErrReported, Code: command.ExitUsage}
	}
	if file == nil {
		return command.ErrReported
	}
	sink, heads, err := Sinks(file, env.Build, log)
	if err != nil {
		return err
	}
	if sink == nil && !o.reportFrom.IsZero() {
		return command.Usagef("set control_plane.url, and control_plane.traces.enabled", "--report-from needs a control plane that gets traces")
	}
	g, err := gateway.New(gateway.Options{
		Config:     file,
		Load:       reloader(env, o, log),
		Logger:     log,
		Version:    env.Build.Info().Version,
		LicenseKey: env.Build.LicensePEM(),
		Sink:       sink,
		Heads:      heads,
		SinkStatus: SinkStatus,
		ReportFrom: o.reportFrom,
		Governance: GovernanceSource(file, env.Build, log),
		Approvals:  ApprovalCalls(file, env.Build, log),
		Report:     Reports(file, env.Build, log),
		Now:        env.Now,
	})
	if err != nil {
		return err
	}
	d := daemon.New(daemon.Options{
		Logger:       log,
		Signals:      signals,
		Reload:       g.Reload,
		Drain:        g.Drain,
		Windows:      g.ShutdownTimes,
		NotifySocket: env.Getenv("NOTIFY_SOCKET"),
		Watchdog:     env.Watchdog(),
	})
	defer runtime.KeepAlive(keepRoom(env))
	d.OnClose("gateway", g.Close)
	d.Go("gateway", g.Run)
	if _, err := d.Listen("gateway", file.Listen, g, g.TLSConfig(), ServedBy(g)...); err != nil {
		return errors.Join(command.Failed(err, "the address is 'listen' in "+o.config), d.Close())
	}
	return d.Run(ctx)
}

// ServedBy returns how a daemon serves and stops a gateway.
func ServedBy(g *gateway.Gateway) []daemon.ListenOption {
	return []daemon.ListenOption{
		daemon.Calls(g.Paths()...),
		daemon.MaxPerAddress(g.ConnectionLimit),
		daemon.OnRefusing(g.EndStreams),
		daemon.CutCause(gateway.ErrStopping),
		daemon.Rechecked(g.OnClientCA),
	}
}

// reloader loads the file again; findings are logged.
func reloader(env process.Env, o gatewayOptions, log *slog.Logger) func() (*config.File, error) {
	return func() (*config.File, error) {
		file, found := loadGateway(env, o)
		for _, f := range found {
			level := slog.LevelError
			if f.Severity == diag.Warning {
				level = slog.LevelWarn
			}
			log.Log(context.Background(), level, "configuration", "finding", f.Error(), "code", f.Code)
		}
		return file, diag.Err(found)
	}
}

// Sinks returns the sinks for traces and for heads of the audit chain, or nil.
func Sinks(file *config.File, b process.Build, log *slog.Logger) (audit.Sink, audit.HeadSink, error) {
	if !file.ControlPlane.Active() {
		return nil, nil, nil
	}
	plane := planeClient(&file.ControlPlane, b, log, "traces")
	return plane, plane, nil
}

// SinkStatus returns the HTTP status in an error of the trace sink, and its
// Retry-After; 0 when there was no response.
func SinkStatus(err error) (status int, retryAfter time.Duration) {
	var answer *client.Error
	if errors.As(err, &answer) {
		return answer.Status, answer.RetryAfter
	}
	return 0, 0
}

// garbageRoom is the least amount of garbage before a collection. The live heap is
// only a few MiB, so without it a collection would run every few thousand requests
// and take a noticeable share of the CPU time.
const garbageRoom = 8 << 20

// keepRoom allocates that amount as a ballast, which the garbage collector counts
// for its pace. It is never touched, so it takes no physical memory. It has no
// effect when GOGC is set.
func keepRoom(env process.Env) []byte {
	if env.Getenv("GOGC") != "" {
		return nil
	}
	return make([]byte, garbageRoom)
}
