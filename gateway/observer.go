package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"svc/gateway/config"
	"svc/gateway/telemetry"
)

// observerOptions are the dependencies of telemetry.
type observerOptions struct {
	Version string
	Logger  *slog.Logger
	// Ready answers /readyz on the metrics listener.
	Ready http.HandlerFunc
	// State is read at each scrape.
	State func() telemetry.State
}

// observer is the telemetry of a configuration. A disabled part is nil and costs
// nothing; the zero value observes nothing.
type observer struct {
	Tracer  *telemetry.Tracer
	Metrics *telemetry.Metrics

	opts     observerOptions
	listener net.Listener // of the metrics server
}

// pipelines are the sections of the pipelines by their names.
func pipelines(c *config.Telemetry) map[string]*config.Pipeline {
	return map[string]*config.Pipeline{"customer": &c.Customer, "operator": &c.Operator}
}

// newObserver creates the telemetry of a configuration section. It fails when the metrics
// address cannot be bound. The observer must be closed, even if it never ran.
func newObserver(cfg *config.Telemetry, opts observerOptions) (o observer, err error) {
	o.opts = opts
	var on []telemetry.Config
	for name, p := range pipelines(cfg) {
		if p.Enabled {
			on = append(on, telemetry.Config{
				Name: name, Endpoint: p.Endpoint, Headers: p.Headers, ServiceName: p.ServiceName,
				ResourceAttrs: p.ResourceAttrs, SampleRatio: p.SampleRatio, Gzip: p.Compression == config.CompressionGzip,
			})
		}
	}
	if len(on) > 0 {
		if o.Tracer, err = telemetry.New(on, telemetry.Options{Version: opts.Version, Logger: opts.Logger}); err != nil {
			return o, err
		}
	}
	if cfg.Metrics.Listen == "" {
		return o, nil
	}
	if o.listener, err = net.Listen("tcp", cfg.Metrics.Listen); err != nil {
		return o, fmt.Errorf("telemetry.metrics.listen: %w", err)
	}
	o.Metrics = telemetry.NewMetrics(opts.Version, opts.State)
	return o, nil
}

// Addr is the address of the metrics server, nil when metrics are disabled.
func (o *observer) Addr() net.Addr {
	if o.listener == nil {
		return nil
	}
	return o.listener.Addr()
}

// Run exports spans and serves metrics until ctx ends.
func (o *observer) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	var failed error
	if o.Tracer != nil {
		wg.Go(func() { o.Tracer.Run(ctx) })
	}
	if o.Metrics != nil {
		wg.Go(func() { failed = o.serveMetrics(ctx) })
	}
	wg.Wait()
	return failed
}

// lastScrape bounds how long a scrape may delay the shutdown.
const lastScrape = time.Second

func (o *observer) serveMetrics(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", o.Metrics.Handler())
	mux.HandleFunc("GET /readyz", o.opts.Ready)
	log := o.opts.Logger
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(o.listener) }()
	log.Info("metrics are served", "address", o.listener.Addr().String(), "path", "/metrics")
	select {
	case err := <-ended:
		return fmt.Errorf("serve metrics: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastScrape)
	defer cancel()
	if server.Shutdown(last) != nil {
		server.Close()
	}
	<-ended
	return nil
}

// Close releases the metrics address, even if Run was never called.
func (o *observer) Close() error {
	if o.listener == nil {
		return nil
	}
	if err := o.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Adopt applies the settings that a reload may change: the sample ratios.
func (o *observer) Adopt(cfg *config.Telemetry) {
	if o.Tracer == nil {
		return
	}
	for name, p := range pipelines(cfg) {
		o.Tracer.SetSampleRatio(name, p.SampleRatio)
	}
}

// Reloaded counts a reload.
func (o *observer) Reloaded(err error) {
	if o.Metrics != nil {
		o.Metrics.Reloaded(err == nil)
	}
}
