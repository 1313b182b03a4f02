// Package telemetry makes what the gateway does visible to the tools that
// people have: spans over OTLP/HTTP and metrics for Prometheus (gateway
// specification, telemetry and Spans).
//
// A span is a fixed record of our own: a request writes it as OTLP into a
// bounded queue, and a goroutine of the pipeline posts what waits there. A request
// never waits for an endpoint: what finds the queue full is dropped and counted.
//
// The package owns trace context (W3C Trace Context), sampling, queues, the
// wire form and the metrics' names. What a request did, and when it counts,
// belongs to the gateway.
package telemetry
