// Package gateway opens everything that a gateway consists of, lists the steps of a request, reloads,
// and answers probes. A gateway is the MCP proxy between agents and tool servers.
//
//   - open.go builds the services that requests use, gateway.go the gateway from them
//   - serve.go has the steps of a request in their order; package request makes them
//   - live.go replaces the parts of the configuration that a reload may change
//   - certificate.go holds the TLS certificate and client CAs of the listener
//   - health.go serves /healthz and /readyz, and logs changes of the license state (gateway
//     specification, /readyz). A probe sends no request to an upstream: it reports only the state of
//     this process
//   - observer.go has the telemetry: spans for two pipelines, and metrics on a listener of their
//     own; parts.go collects the state of the gateway's parts at a scrape
//
// Packages below this one do not import it. The caller owns the listener, the signals and the path of
// the configuration file.
package gateway
