package storecmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/daemon"
	"svc/cli/process"
	"svc/server"
	"svc/server/background"
	"svc/server/pricing"
	"svc/server/redis"
	"svc/server/ui"
	"svc/store"
	"svc/store/clickhouse"
)

// defaultServeConfig is the default settings file of 'svc serve'.
const defaultServeConfig = "/etc/svc/serve.yaml"

type ServeOptions struct {
	listen          string
	Store           StoreOptions
	traceStore      string
	RateLimit       int
	IngestRateLimit int
	MaxAutoAgents   int
	Retention       time.Duration
	AuditRetention  time.Duration
	Evaluate        time.Duration
	tlsCert, tlsKey string
	metricsListen   string
	unread          []string // environment variables with the prefix of settings that no setting has
	prices          string
	redisURL        string
	webhookProxy    string
	webhookAllow    []string
	UI              bool
	uiHosts         []string
	drainWindow     time.Duration
	grace           time.Duration
	log             command.LogOptions
}

func NewServeCmd(env process.Env) *cobra.Command {
	var o ServeOptions
	cmd := &cobra.Command{
		Use: "serve", SuggestFor: []string{"start", "run", "server", "plane"},
		Short: "Run the control plane",
		Long: `Run the control plane: a REST API over a store. The embedded store belongs to one
process. A PostgreSQL database can be shared by several processes:
--store postgres://user@host1,host2/database. Traces can be kept in ClickHouse
instead: --trace-store clickhouse://user@host1,host2/database, where each host is a
shard. docs/scale-out.md describes the setup. Keep the password out of the command
line (PGPASSWORD, a password file, SVC_STORE or SVC_TRACE_STORE).

On an empty store the server creates the tenant "default" with one API key: the
value of SVC_BOOTSTRAP_API_KEY, or a new key in DATA_DIR/bootstrap-key. If several
processes start on one database, only one of them creates it.

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
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.ResolveSettings(env, cmd.Flags(), defaultServeConfig); err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			o.unread = command.UnreadVariables(env, cmd.Flags())
			return runServe(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.String("config", defaultServeConfig, "settings file")
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "address of the API")
	o.Store.addFlags(cmd)
	f.StringVar(&o.traceStore, "trace-store", "", "store of the traces, clickhouse://user@host1,host2/database or clickhouse+http://… (default: traces are in --store)")
	f.IntVar(&o.RateLimit, "rate-limit", server.DefaultRateLimit, "requests a minute for each tenant")
	f.IntVar(&o.IngestRateLimit, "ingest-rate-limit", server.DefaultIngestRateLimit, "ingest requests a minute for each tenant")
	f.StringVar(&o.redisURL, "redis-url", "", "Redis that counts requests for all control planes: redis://host:6379, several hosts for a cluster")
	f.StringVar(&o.webhookProxy, "webhook-proxy", "", "HTTP proxy for messages to webhooks, http://host:3128; it resolves their names itself, so restrict it (default: none, also not from the environment)")
	f.StringSliceVar(&o.webhookAllow, "webhook-allow", nil, "network that webhooks of all tenants may reach although it is not public, as CIDR or CIDR:PORT; comma-separated; also over http")
	f.BoolVar(&o.UI, "ui", false, "also serve the page for browsers, at / of the same address")
	f.StringSliceVar(&o.uiHosts, "ui-host", nil, "host under which a TLS proxy serves the page, such as svc.example or svc.example:8443; comma-separated; messages to webhooks link to the first")
	f.IntVar(&o.MaxAutoAgents, "max-auto-agents", store.DefaultMaxAutoAgents, "highest number of agents that traces register automatically, for each tenant")
	command.DurationFlag(f, &o.Retention, "trace-retention", 90*24*time.Hour, "how long traces are kept; 0 keeps them forever; statistics are kept longer")
	command.DurationFlag(f, &o.AuditRetention, "audit-retention", background.DefaultAuditRetention, "how long the record of administrators' changes is kept; 0 keeps it forever")
	command.DurationFlag(f, &o.Evaluate, "evaluate-interval", time.Minute, "how often SLA targets are evaluated")
	f.StringVar(&o.tlsCert, "tls-cert", "", "certificate chain (PEM); with --tls-key the API is served over HTTPS")
	f.StringVar(&o.tlsKey, "tls-key", "", "private key of the certificate (PEM)")
	f.StringVar(&o.metricsListen, "metrics-listen", "", "address of Prometheus /metrics and /readyz?verbose; off unless set")
	f.StringVar(&o.prices, "prices", "", "price table (JSON) that overrides the built-in one")
	command.DurationFlag(f, &o.drainWindow, "drain-window", 0, "how long /readyz answers 503 before connections are refused")
	command.DurationFlag(f, &o.grace, "grace", 30*time.Second, "how long requests in flight may take after the drain window")
	o.log.AddFlags(cmd)
	return cmd
}

// check rejects invalid values that no flag type rejects, all at once.
func (o *ServeOptions) check() error {
	var problems []error
	for _, c := range []struct {
		bad  bool
		what string
	}{
		{o.RateLimit < 1, "rate-limit must be at least 1"},
		{o.IngestRateLimit < 1, "ingest-rate-limit must be at least 1"},
		{o.MaxAutoAgents < 0, "max-auto-agents must not be negative"},
		{o.Evaluate < time.Second, "evaluate-interval must be at least 1s"},
		{(o.tlsCert == "") != (o.tlsKey == ""), "tls-cert and tls-key belong together"},
		{o.Retention != 0 && o.Retention < time.Hour, "trace-retention must be at least 1h, or 0 to keep traces for ever"},
		{o.AuditRetention != 0 && o.AuditRetention < 24*time.Hour, "audit-retention must be at least 1d, or 0 to keep events for ever"},
		{o.UI && o.tlsCert == "" && len(o.uiHosts) == 0 && !o.onLoopback(), "with ui, listen must be a loopback address, or tls-cert and tls-key must be set, " +
			"or ui-host must name the host under which a TLS proxy serves the page: keys must not cross a network in the clear"},
	} {
		if c.bad {
			problems = append(problems, errors.New(c.what))
		}
	}
	for i, text := range o.uiHosts {
		host, err := ui.ParseHost(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("ui-host: %w", err))
		}
		o.uiHosts[i] = host
	}
	if _, err := o.webhooks(nil); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return command.Usage(errors.Join(problems...), "")
	}
	return nil
}

// pageHost returns the name under which people reach the page, for links in messages; empty: it is not known.
func (o *ServeOptions) pageHost() string {
	if !o.UI || len(o.uiHosts) == 0 {
		return ""
	}
	return o.uiHosts[0]
}

// webhooks returns how messages are sent; own returns the ports of this process.
func (o *ServeOptions) webhooks(own func() []uint16) (post background.PostOptions, err error) {
	post.Own = own
	for _, text := range o.webhookAllow {
		a, err := background.ParseAllowed(text)
		if err != nil {
			return post, fmt.Errorf("webhook-allow: %w", err)
		}
		post.Allow = append(post.Allow, a)
	}
	if o.webhookProxy != "" {
		u, err := url.Parse(o.webhookProxy)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" { // the URL may have a password
			return post, errors.New("webhook-proxy must be a URL such as http://proxy.example:3128")
		}
		post.Proxy = u
	}
	return post, nil
}

// onLoopback reports whether the API listens on a loopback address only, or the address is invalid.
func (o *ServeOptions) onLoopback() bool {
	host, _, err := net.SplitHostPort(o.listen)
	ip := net.ParseIP(host)
	return err != nil || strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// warnExposed logs a warning if keys would cross a network unencrypted.
func (o *ServeOptions) warnExposed(log *slog.Logger) {
	if !o.onLoopback() && o.tlsCert == "" {
		log.Warn("API keys cross the network in the clear", "listen", o.listen, "fix", "set tls-cert and tls-key, or put a TLS proxy in front")
	}
}

func runServe(ctx context.Context, env process.Env, o ServeOptions) (err error) {
	log, err := o.log.Logger(env)
	if err != nil {
		return err
	}
	for _, name := range o.unread {
		log.Warn("unknown environment variable", "variable", name)
	}
	signals, stop := env.Signals()
	defer stop()

	p := &ControlPlane{Env: env, O: o, Log: log}
	d := daemon.New(daemon.Options{
		Logger:       log,
		Signals:      signals,
		Reload:       p.reload,
		Drain:        func() { p.Srv.Drain() },
		Windows:      func() (time.Duration, time.Duration) { return o.drainWindow, o.grace },
		NotifySocket: env.Getenv("NOTIFY_SOCKET"),
		Watchdog:     env.Watchdog(),
	})
	if err := p.start(ctx, d); err != nil {
		return errors.Join(err, d.Close())
	}
	o.warnExposed(log)
	return d.Run(ctx)
}

// ControlPlane combines the parts of the control plane.
type ControlPlane struct {
	Env     process.Env
	O       ServeOptions
	Log     *slog.Logger
	St      store.Engine
	Tr      store.Traces // the same as St unless the traces are in another store
	Srv     *server.Server
	Page    *ui.Page            // nil without --ui
	address *net.TCPAddr        // where the page is served
	cert    *daemon.Certificate // nil for plain HTTP

	prober    *background.Prober
	retention *background.Retention
	approvals *background.Approvals
	sender    *background.Sender

	ports ports
}

// ports are the ports on which a process listens. It is safe for concurrent use.
type ports struct {
	mu   sync.Mutex
	list []uint16
}

func (p *ports) all() []uint16 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.list)
}

// Listens notes an address on which the process listens: webhooks never reach it.
func (p *ControlPlane) Listens(addr net.Addr) {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		p.ports.mu.Lock()
		defer p.ports.mu.Unlock()
		p.ports.list = append(p.ports.list, uint16(tcp.Port))
	}
}

// start opens the store and adds everything to a daemon.
func (p *ControlPlane) start(ctx context.Context, d *daemon.Daemon) error {
	if err := p.Env.PrivateDir(p.O.Store.DataDir); err != nil {
		return command.Failed(fmt.Errorf("make the data directory: %w", err), "name one that you may write to with --data-dir")
	}
	if err := p.Open(ctx, d); err != nil {
		return err
	}
	var conf *tls.Config
	if p.O.tlsCert != "" {
		var err error
		if p.cert, err = daemon.LoadCertificate(p.O.tlsCert, p.O.tlsKey); err != nil {
			return err
		}
		conf = p.cert.TLSConfig()
	}
	ln, err := daemon.Bind(p.O.listen)
	if err != nil {
		return command.Failed(err, "choose another address with --listen")
	}
	host, _, err := net.SplitHostPort(p.O.listen)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	d.Serve("api", ln, p.Handler(host, ln.Addr()), conf)
	p.Listens(ln.Addr())
	if p.O.metricsListen != "" {
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", p.Srv.Metrics())
		mux.Handle("GET /readyz", p.Srv.Readiness())
		addr, err := d.Listen("metrics", p.O.metricsListen, mux, nil)
		if err != nil {
			return command.Failed(err, "choose another address with --metrics-listen")
		}
		p.Listens(addr)
	}
	// After the addresses are bound, so that a start that fails makes no tenant and no key.
	if err := bootstrap(ctx, p.Env, p.St, p.O.Store.DataDir, p.Log); err != nil {
		return err
	}
	p.AddUpkeep(d)
	p.addOperator(ctx, d)
	return nil
}

// Open opens the store and builds the server over it.
func (p *ControlPlane) Open(ctx context.Context, d *daemon.Daemon) (err error) {
	if p.O.Store.maxAutoAgents = p.O.MaxAutoAgents; p.O.MaxAutoAgents == 0 {
		p.O.Store.maxAutoAgents = -1 // none, although 0 means the default bound
	}
	p.O.Store.serving = true
	if p.St, err = p.O.Store.open(ctx, p.Env, p.Log); err != nil {
		return err
	}
	d.OnClose("store", p.St.Close)
	if p.Tr, err = p.openTraces(ctx, d); err != nil {
		return err
	}
	var prices *pricing.Table
	if p.O.prices != "" {
		if prices, err = pricing.Load(p.O.prices); err != nil {
			return command.Usage(err, "leave out --prices for the built-in table")
		}
	}
	windows, err := p.openWindows(d)
	if err != nil {
		return err
	}
	p.prober = background.New(background.ReadinessOptions{Store: p.St, Logger: p.Log, Now: p.Env.Now})
	p.retention = background.NewRetention(p.upkeep(), p.O.Retention)
	p.approvals = background.NewApprovals(p.upkeep())
	p.retention.KeepAuditEvents(p.O.AuditRetention)
	post, err := p.O.webhooks(p.ports.all)
	if err != nil {
		return err
	}
	sending := p.upkeep()
	sending.PageHost = p.O.pageHost()
	p.sender = background.NewSender(sending, background.NewPost(post))
	p.Srv, err = server.New(server.Options{
		WebhookHTTP:     len(post.Allow) > 0,
		PageHost:        p.O.pageHost(),
		Deliveries:      p.sender.Counts,
		Writable:        p.prober.Err,
		ClockJump:       p.retention.ClockJump,
		RemovedTraces:   p.retention.RemovedTraces,
		OpenApprovals:   p.approvals.Open,
		Records:         p.St,
		Traces:          p.Tr,
		Now:             p.Env.Now,
		Logger:          p.Log,
		RateLimit:       p.O.RateLimit,
		IngestRateLimit: p.O.IngestRateLimit,
		Windows:         windows,
		IdentitySecret:  p.Env.Getenv("IDP_WEBHOOK_SECRET"),
		Pricing:         prices,
	})
	return err
}

// Handler returns what a listener serves: the API, and the page with --ui. host is the name of the address in the
// settings.
func (p *ControlPlane) Handler(host string, addr net.Addr) http.Handler {
	tcp, ok := addr.(*net.TCPAddr)
	if !p.O.UI || !ok {
		return p.Srv
	}
	p.Page = ui.New(ui.Options{API: p.Srv, Records: p.St, Hosts: p.O.uiHosts, Name: host, Port: strconv.Itoa(tcp.Port),
		Count: p.Srv.CountPage, Now: p.Env.Now, Logger: p.Log, TraceRetention: p.O.Retention})
	p.address = tcp
	return p.Page
}

// openTraces opens the store of the traces: that of the records, or another one.
func (p *ControlPlane) openTraces(ctx context.Context, d *daemon.Daemon) (store.Traces, error) {
	if p.O.traceStore == "" {
		return p.St, nil
	}
	records := p.St
	tr, err := clickhouse.Open(ctx, p.O.traceStore, clickhouse.Options{Now: p.Env.Now, Logger: p.Log, Migrate: true,
		Agents: func(tenant string) store.AgentDirectory { return records.Tenant(tenant) }})
	switch {
	case errors.Is(err, store.ErrUnavailable):
		return nil, command.Failed(err, "start ClickHouse, and look at hosts, ports, user and database of --trace-store")
	case err != nil:
		return nil, command.Failed(err, "look at --trace-store: docs/scale-out.md says what it needs")
	}
	d.OnClose("trace store", tr.Close)
	p.Log.Info("traces are in another store", "traces", clickhouse.Location(p.O.traceStore))
	return tr, nil
}

// openWindows opens the request windows that control planes share; nil when each has
// its own.
func (p *ControlPlane) openWindows(d *daemon.Daemon) (server.SharedWindows, error) {
	if p.O.redisURL == "" {
		return nil, nil
	}
	w, err := redis.Open(p.O.redisURL, p.Log)
	if err != nil {
		return nil, command.Usage(err, "as in redis://host:6379, or redis://host1:6379,host2:6379 for a cluster; a password belongs into SVC_REDIS_URL")
	}
	d.OnClose("redis", w.Close)
	p.Log.Info("request windows are shared in Redis")
	return w, nil
}

// upkeep returns the options that the background work has in common.
func (p *ControlPlane) upkeep() background.EvaluatorOptions {
	return background.EvaluatorOptions{Records: p.St, Traces: p.Tr, Now: p.Env.Now, Logger: p.Log}
}

// AddUpkeep adds the background work: SLA evaluation, retention, the end of approvals, messages to
// webhooks, and the probe
// whether the store takes writes.
func (p *ControlPlane) AddUpkeep(d *daemon.Daemon) {
	o := p.upkeep()
	o.Interval = p.O.Evaluate
	slas := background.NewEvaluator(o)
	d.Go("readiness", func(ctx context.Context) error { p.prober.Run(ctx); return nil })
	d.Go("webhooks", func(ctx context.Context) error { p.sender.Run(ctx); return nil })
	d.Go("retention", func(ctx context.Context) error { p.retention.Run(ctx); return nil })
	d.Go("approvals", func(ctx context.Context) error { p.approvals.Run(ctx); return nil })
	d.Go("SLA evaluation", func(ctx context.Context) error { slas.Run(ctx); return nil })
}

// addOperator adds the operator socket. Without it the control plane still works, so
// a path that is too long for a socket does not prevent the start.
func (p *ControlPlane) addOperator(ctx context.Context, d *daemon.Daemon) {
	var ln net.Listener
	var secret string
	path, err := p.O.Store.location()
	if err == nil {
		ln, secret, err = listenOperator(ctx, p.Env, p.O.Store.DataDir)
	}
	if err != nil {
		p.Log.Warn("no operator socket: 'svc tenant' and 'svc store backup' need the server stopped", "error", err)
		return
	}
	o := newStoreOperator(p.St, path, p.Env.Now)
	o.link = p.Link
	d.Serve("operator", ln, operatorHandler(o, secret), nil)
}

// reload reads the TLS certificate again.
func (p *ControlPlane) reload(context.Context) error {
	if p.cert == nil {
		p.Log.Info("nothing to reload: settings need a restart, and no TLS certificate is used")
		return nil
	}
	if err := p.cert.Reload(); err != nil {
		return err
	}
	p.Log.Info("TLS certificate read again")
	return nil
}
