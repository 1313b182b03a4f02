package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/daemon"
	"svc/server"
	"svc/server/evaluate"
	"svc/server/pricing"
	"svc/store"
)

// defaultServeConfig is where 'svc serve' looks for its settings.
const defaultServeConfig = "/etc/svc/serve.yaml"

type serveOptions struct {
	listen          string
	store           storeOptions
	rateLimit       int
	ingestRateLimit int
	maxAutoAgents   int
	retention       time.Duration
	evaluate        time.Duration
	tlsCert, tlsKey string
	metricsListen   string
	unread          []string // environment variables that look like settings and are unknown
	prices          string
	drainWindow     time.Duration
	grace           time.Duration
	log             logOptions
}

func newServeCmd(env Env) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the control plane",
		Long: `Run the control plane: the REST API over an embedded store.

On an empty store it creates the tenant "default" with one API key: the value
of SVC_BOOTSTRAP_API_KEY, or a new one in DATA_DIR/bootstrap-key.

Every flag can also be set in the settings file (name: value) or by a variable
(SVC_ and the name in capitals, _ for -). Flags override environment variables,
which override the settings file, which overrides defaults. Keys of the file are
case-sensitive, and an unknown key is an error; an unknown SVC_ variable is logged
as a warning. IDP_WEBHOOK_SECRET is the shared secret of the identity provider's
webhook and has no flag.

SIGTERM and SIGINT drain, a second signal ends at once; SIGHUP reloads the TLS
certificate.`,
		Example: `  svc serve --listen 127.0.0.1:8080 --data-dir /var/lib/svc
  SVC_RATE_LIMIT=600 svc serve --data-dir ./data`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := resolveSettings(env, cmd.Flags(), defaultServeConfig); err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			o.unread = unreadVariables(env, cmd.Flags())
			return runServe(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.String("config", defaultServeConfig, "settings file")
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "address of the API")
	o.store.addFlags(cmd)
	f.IntVar(&o.rateLimit, "rate-limit", server.DefaultRateLimit, "requests a minute for each tenant")
	f.IntVar(&o.ingestRateLimit, "ingest-rate-limit", server.DefaultIngestRateLimit, "ingest requests a minute for each tenant")
	f.IntVar(&o.maxAutoAgents, "max-auto-agents", store.DefaultMaxAutoAgents, "agents that traces may register by naming them, for each tenant")
	spanFlag(f, &o.retention, "trace-retention", 90*24*time.Hour, "how long traces are kept, 0 for ever; statistics outlive them")
	spanFlag(f, &o.evaluate, "evaluate-interval", time.Minute, "how often SLA targets are evaluated")
	f.StringVar(&o.tlsCert, "tls-cert", "", "certificate chain (PEM); with --tls-key the API is served over HTTPS")
	f.StringVar(&o.tlsKey, "tls-key", "", "private key of the certificate (PEM)")
	f.StringVar(&o.metricsListen, "metrics-listen", "", "address of Prometheus /metrics; off unless set")
	f.StringVar(&o.prices, "prices", "", "price table (JSON) that goes before the built-in one")
	spanFlag(f, &o.drainWindow, "drain-window", 0, "how long /readyz answers 503 before connections are refused")
	spanFlag(f, &o.grace, "grace", 30*time.Second, "how long requests in flight may take after that")
	o.log.addFlags(cmd)
	return cmd
}

// check refuses values that no flag type can refuse, all at once.
func (o *serveOptions) check() error {
	var problems []error
	for _, c := range []struct {
		bad  bool
		what string
	}{
		{o.rateLimit < 1, "rate-limit must be at least 1"},
		{o.ingestRateLimit < 1, "ingest-rate-limit must be at least 1"},
		{o.maxAutoAgents < 0, "max-auto-agents must not be negative"},
		{o.evaluate < time.Second, "evaluate-interval must be at least 1s"},
		{(o.tlsCert == "") != (o.tlsKey == ""), "tls-cert and tls-key belong together"},
		{o.retention != 0 && o.retention < time.Hour, "trace-retention must be at least 1h, or 0 to keep traces for ever"},
	} {
		if c.bad {
			problems = append(problems, errors.New(c.what))
		}
	}
	if len(problems) > 0 {
		return usage(errors.Join(problems...), "")
	}
	return nil
}

// warnExposed says when keys would cross a network in the clear.
func (o *serveOptions) warnExposed(log *slog.Logger) {
	host, _, err := net.SplitHostPort(o.listen)
	ip := net.ParseIP(host)
	if err == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) && o.tlsCert == "" {
		log.Warn("API keys cross the network in the clear", "listen", o.listen, "fix", "set tls-cert and tls-key, or put a TLS proxy in front")
	}
}

func runServe(ctx context.Context, env Env, o serveOptions) (err error) {
	log, err := o.log.logger(env)
	if err != nil {
		return err
	}
	for _, name := range o.unread {
		log.Warn("unknown environment variable", "variable", name)
	}
	signals, stop := env.Signals()
	defer stop()

	p := &controlPlane{env: env, o: o, log: log}
	d := daemon.New(daemon.Options{
		Logger:       log,
		Signals:      signals,
		Reload:       p.reload,
		Drain:        func() { p.srv.Drain() },
		Windows:      func() (time.Duration, time.Duration) { return o.drainWindow, o.grace },
		NotifySocket: env.getenv("NOTIFY_SOCKET"),
		Watchdog:     env.watchdog(),
	})
	if err := p.start(ctx, d); err != nil {
		return errors.Join(err, d.Close())
	}
	o.warnExposed(log)
	return d.Run(ctx)
}

// controlPlane puts the control plane together.
type controlPlane struct {
	env  Env
	o    serveOptions
	log  *slog.Logger
	st   openedStore
	srv  *server.Server
	cert *daemon.Certificate // nil for plain HTTP
}

// start opens the store and adds everything to a daemon.
func (p *controlPlane) start(ctx context.Context, d *daemon.Daemon) error {
	if err := p.env.privateDir(p.o.store.dataDir); err != nil {
		return failed(fmt.Errorf("make the data directory: %w", err), "name one that you may write to with --data-dir")
	}
	if err := p.open(d); err != nil {
		return err
	}
	if err := bootstrap(ctx, p.env, p.st, p.o.store.dataDir, p.log); err != nil {
		return err
	}
	var conf *tls.Config
	if p.o.tlsCert != "" {
		var err error
		if p.cert, err = daemon.LoadCertificate(p.o.tlsCert, p.o.tlsKey); err != nil {
			return err
		}
		conf = p.cert.TLSConfig()
	}
	if _, err := d.Listen("api", p.o.listen, p.srv, conf); err != nil {
		return failed(err, "choose another address with --listen")
	}
	if p.o.metricsListen != "" {
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", p.srv.Metrics())
		if _, err := d.Listen("metrics", p.o.metricsListen, mux, nil); err != nil {
			return failed(err, "choose another address with --metrics-listen")
		}
	}
	p.addUpkeep(d)
	p.addOperator(d)
	return nil
}

// open opens the store and builds the server over it.
func (p *controlPlane) open(d *daemon.Daemon) (err error) {
	if p.o.store.maxAutoAgents = p.o.maxAutoAgents; p.o.maxAutoAgents == 0 {
		p.o.store.maxAutoAgents = -1 // none, where 0 means the usual bound
	}
	if p.st, err = p.o.store.open(p.env, p.log); err != nil {
		return err
	}
	d.OnClose("store", p.st.Close)
	var prices *pricing.Table
	if p.o.prices != "" {
		if prices, err = pricing.Load(p.o.prices); err != nil {
			return usage(err, "leave out --prices for the built-in table")
		}
	}
	p.srv, err = server.New(server.Options{
		Records:         p.st,
		Traces:          p.st,
		Now:             p.env.Now,
		Logger:          p.log,
		RateLimit:       p.o.rateLimit,
		IngestRateLimit: p.o.ingestRateLimit,
		WebhookSecret:   p.env.getenv("IDP_WEBHOOK_SECRET"),
		Pricing:         prices,
	})
	return err
}

// addUpkeep adds the background work: SLA evaluation and retention.
func (p *controlPlane) addUpkeep(d *daemon.Daemon) {
	o := evaluate.Options{Records: p.st, Traces: p.st, Now: p.env.Now, Logger: p.log}
	retention := evaluate.NewRetention(o, p.o.retention)
	o.Interval = p.o.evaluate
	slas := evaluate.NewEvaluator(o)
	d.Go("retention", func(ctx context.Context) error { retention.Run(ctx); return nil })
	d.Go("SLA evaluation", func(ctx context.Context) error { slas.Run(ctx); return nil })
}

// addOperator adds the socket for operations on the store itself. Without it
// the control plane still works, so that a path too long for a socket does not
// keep it from starting.
func (p *controlPlane) addOperator(d *daemon.Daemon) {
	var ln net.Listener
	path, err := p.o.store.path()
	if err == nil {
		ln, err = listenOperator(p.env, p.o.store.dataDir)
	}
	if err != nil {
		p.log.Warn("no operator socket: 'svc tenant' and 'svc store backup' need the server stopped", "error", err)
		return
	}
	d.Serve("operator", ln, operatorHandler(storeOperator{p.st, path}), nil)
}

// reload reads the TLS certificate again.
func (p *controlPlane) reload(context.Context) error {
	if p.cert == nil {
		p.log.Info("nothing to reload: settings need a restart, and no TLS certificate is used")
		return nil
	}
	if err := p.cert.Reload(); err != nil {
		return err
	}
	p.log.Info("TLS certificate read again")
	return nil
}
