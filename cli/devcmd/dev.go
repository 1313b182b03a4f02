package devcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/daemon"
	"svc/cli/gatewaycmd"
	"svc/cli/process"
	"svc/cli/storecmd"
	"svc/gateway"
	"svc/gateway/auth"
	"svc/gateway/base/diag"
	"svc/gateway/base/hostname"
	"svc/gateway/config"
	"svc/store"
	"svc/store/bolt"
)

type devOptions struct {
	dataDir       string
	listen        string
	gatewayListen string
	log           command.LogOptions
}

// Ports of 'svc dev'. When one is in use, a free port is used instead.
const (
	devListen        = "127.0.0.1:8080"
	devGatewayListen = "127.0.0.1:8090"
)

// devRateLimit is high, because people who try things out send bursts.
const devRateLimit = 6000

func NewDevCmd(env process.Env) *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Start everything on this machine: control plane, gateway, two demo tool servers",
		Long: `Start the control plane, the gateway and two demo tool servers in one process on
loopback, create keys and a license, and print commands to try first.

All state is in the data directory: keys, traces and rules survive a restart. To
start over, delete the directory. To change the rules, edit gateway.yaml and send
SIGHUP. dev.json has the addresses and keys for scripts, and gateway.env has the
variables that gateway.yaml refers to.`,
		Example: `  svc dev
  svc dev --data-dir /tmp/try-svc`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDev(cmd.Context(), env, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.dataDir, "data-dir", ".svc-dev", "directory of all state")
	f.StringVar(&o.listen, "listen", devListen, "loopback address of the control plane")
	f.StringVar(&o.gatewayListen, "gateway-listen", devGatewayListen, "loopback address of the gateway")
	o.log.AddFlags(cmd)
	o.log.Level = slog.LevelWarn
	f.Lookup("log-level").DefValue = "WARN"
	return cmd
}

// devStack is the process of 'svc dev' during its start.
type devStack struct {
	env   process.Env
	o     devOptions // the absolute path of its data directory
	log   *slog.Logger
	d     *daemon.Daemon
	cp    *storecmd.ControlPlane
	gw    *gateway.Gateway
	state State
	// vars are the values of the ${SVC_DEV_…} variables in gateway.yaml.
	vars     map[string]string
	started  time.Time
	shownDir string   // the data directory as it was given
	link     string   // to the page, for one sign-in
	context  string   // result of saving the context of 'svc dev'
	moved    []string // servers that did not get their usual port
}

func runDev(ctx context.Context, env process.Env, o devOptions) error {
	log, err := o.log.Logger(env)
	if err != nil {
		return err
	}
	for _, addr := range []string{o.listen, o.gatewayListen} {
		if host, _, err := net.SplitHostPort(addr); err != nil || !hostname.IsLoopback(host) {
			return command.Usagef("'svc serve' and 'svc gateway' are for the network", "%q is not a loopback address with a port", addr)
		}
	}
	shownDir := o.dataDir
	if o.dataDir, err = filepath.Abs(o.dataDir); err != nil {
		return err
	}
	signals, stop := env.Signals()
	defer stop()
	s := &devStack{env: env, o: o, log: log, shownDir: shownDir, started: env.Now(), vars: map[string]string{}}
	s.d = daemon.New(daemon.Options{
		Logger:  log,
		Signals: signals,
		Reload:  s.reload,
		Drain: func() {
			s.gw.Drain()
			s.cp.Srv.Drain()
		},
		Windows: func() (time.Duration, time.Duration) { return 0, 2 * time.Second },
	})
	if err := s.build(ctx); err != nil {
		return errors.Join(err, s.d.Close())
	}
	s.d.Go("welcome", s.welcome)
	err = s.d.Run(ctx)
	if err == nil {
		fmt.Fprintln(env.Stderr, "stopped")
	}
	return err
}

// build opens and binds everything, in the order of dependencies.
func (s *devStack) build(ctx context.Context) error {
	if err := s.env.PrivateDir(s.o.dataDir); err != nil {
		return command.Failed(err, "name a directory that you may write to with --data-dir")
	}
	for _, step := range []func(context.Context) error{
		s.openControlPlane, s.startTools, s.makeKeys, s.makeLicense, s.startGateway, s.saveState,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// openControlPlane opens the store and binds the API.
func (s *devStack) openControlPlane(ctx context.Context) error {
	s.cp = &storecmd.ControlPlane{Env: s.env, Log: s.log, O: storecmd.ServeOptions{
		Store:           storecmd.StoreOptions{DataDir: s.o.dataDir},
		RateLimit:       devRateLimit,
		IngestRateLimit: devRateLimit,
		MaxAutoAgents:   store.DefaultMaxAutoAgents,
		Retention:       90 * 24 * time.Hour,
		Evaluate:        time.Minute,
		UI:              true,
	}}
	if err := s.cp.Open(ctx, s.d); errors.Is(err, bolt.ErrInUse) {
		return command.Failed(fmt.Errorf("svc dev is already running on %s", s.o.dataDir), runningHint(s.env, s.o.dataDir))
	} else if err != nil {
		return err
	}
	if err := s.state.load(s.env, s.o.dataDir); err != nil {
		return err
	}
	if err := s.state.ensureAPIKeys(ctx, s.cp.St); err != nil {
		return fmt.Errorf("make API keys: %w", err)
	}
	ln, err := s.bind("control plane", s.o.listen, devListen)
	if err != nil {
		return err
	}
	s.d.Serve("api", ln, s.cp.Handler("localhost", ln.Addr()), nil)
	s.cp.Listens(ln.Addr())
	s.state.ControlPlaneURL = daemon.BaseURL(ln.Addr(), false)
	s.cp.AddUpkeep(s.d)
	// It has no operator socket: the gateway of this process starts programs under the same
	// account, and nobody needs a second tenant or a backup here.
	return nil
}

// startTools binds the demo tool servers to free ports, which only the
// gateway needs to know.
func (s *devStack) startTools(context.Context) error {
	version := s.env.Build.Info().Version
	for _, t := range []struct {
		name, variable string
		handler        http.Handler
	}{
		{"demo shop", "SVC_DEV_SHOP_URL", newShopServer(version, s.log)},
		{"demo handbook", "SVC_DEV_HANDBOOK_URL", newHandbook(version, s.log)},
	} {
		addr, err := s.d.Listen(t.name, "127.0.0.1:0", t.handler, nil)
		if err != nil {
			return err
		}
		s.vars[t.variable] = daemon.BaseURL(addr, false)
	}
	return nil
}

// makeKeys creates the gateway's key on the first start, and its hash on each
// start.
func (s *devStack) makeKeys(context.Context) error {
	if s.state.GatewayKey == "" {
		key, err := auth.NewKey("dev")
		if err != nil {
			return fmt.Errorf("make a gateway key: %w", err)
		}
		s.state.GatewayKey = key
	}
	hash, err := auth.Hash(s.state.GatewayKey, auth.DefaultParams())
	if err != nil {
		return fmt.Errorf("hash the gateway key of dev.json: %w", err)
	}
	s.vars["SVC_DEV_GATEWAY_KEY_HASH"] = hash
	s.vars["SVC_DEV_INGEST_KEY"] = s.state.IngestKey
	s.vars["SVC_DEV_CONTROL_PLANE_URL"] = s.state.ControlPlaneURL
	return nil
}

// startGateway writes the gateway's config on the first start, loads it, and
// binds the gateway.
func (s *devStack) startGateway(ctx context.Context) error {
	ln, err := s.bind("gateway", s.o.gatewayListen, devGatewayListen)
	if err != nil {
		return err
	}
	s.vars["SVC_DEV_LISTEN"] = ln.Addr().String()
	s.state.GatewayURL = daemon.BaseURL(ln.Addr(), false) + "/mcp"
	path := s.configPath()
	if !s.env.Exists(path) {
		text, err := devConfig(s.o.dataDir)
		if err == nil {
			err = s.env.CreateFile(path, []byte(text), 0o600)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("write the gateway's config: %w", err), ln.Close())
		}
	}
	file, found := config.Load(path, s.lookup)
	if err := diag.WriteText(s.env.Stderr, found); err != nil {
		return errors.Join(err, ln.Close())
	}
	if file == nil {
		return errors.Join(command.Failed(fmt.Errorf("%s has errors", path), "correct it, or delete it to get a new one"), ln.Close())
	}
	sink, heads, err := gatewaycmd.Sinks(file, s.env.Build, s.log)
	if err == nil {
		s.gw, err = gateway.New(gateway.Options{
			Config:     file,
			Load:       s.loadAgain,
			Logger:     s.log,
			Version:    s.env.Build.Info().Version,
			Sink:       sink,
			Heads:      heads,
			SinkStatus: gatewaycmd.SinkStatus,
			Governance: gatewaycmd.GovernanceSource(file, s.env.Build, s.log),
			Approvals:  gatewaycmd.ApprovalCalls(file, s.env.Build, s.log),
			Report:     gatewaycmd.Reports(file, s.env.Build, s.log),
			Now:        s.env.Now,
		})
	}
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	s.d.OnClose("gateway", s.gw.Close)
	s.d.Go("gateway", s.gw.Run)
	s.d.Serve("gateway", ln, s.gw, s.gw.TLSConfig(), gatewaycmd.ServedBy(s.gw)...)
	return nil
}

func (s *devStack) configPath() string { return filepath.Join(s.o.dataDir, "gateway.yaml") }

// lookup returns the environment variables for gateway.yaml.
func (s *devStack) lookup(name string) (string, bool) {
	if v, ok := s.vars[name]; ok {
		return v, true
	}
	return s.env.LookupEnv(name)
}

// reload reloads gateway.yaml and logs the result.
func (s *devStack) reload(ctx context.Context) error {
	if err := s.gw.Reload(ctx); err != nil {
		return err
	}
	fmt.Fprintln(s.env.Stderr, "gateway.yaml reloaded: its rules are in use")
	return nil
}

func (s *devStack) loadAgain() (*config.File, error) {
	file, found := config.Load(s.configPath(), s.lookup)
	if err := diag.WriteText(s.env.Stderr, found); err != nil {
		return nil, err
	}
	return file, diag.Err(found)
}

// bind binds an address. When the default address is taken, any free port is
// used. An address that the user gave is used or is an error.
func (s *devStack) bind(name, addr, usual string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) && addr == usual {
		host, port, _ := strings.Cut(addr, ":")
		s.moved = append(s.moved, fmt.Sprintf("port %s is taken, the %s has another one", port, name))
		ln, err = net.Listen("tcp", host+":0")
	}
	if err != nil {
		return nil, fmt.Errorf("listen for the %s: %w", name, err)
	}
	return ln, nil
}

// runningHint adds the address of the other process to an error.
func runningHint(env process.Env, dataDir string) string {
	var other State
	if err := other.load(env, dataDir); err != nil || other.GatewayURL == "" {
		return "stop it, or name another --data-dir"
	}
	return fmt.Sprintf("its gateway is %s; stop it, or name another --data-dir", other.GatewayURL)
}
