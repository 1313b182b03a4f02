// Package telemetry exports the gateway's telemetry: spans over OTLP/HTTP and metrics
// for Prometheus (gateway specification, telemetry and Spans).
//
// A request writes its span as OTLP bytes into a bounded queue, and a goroutine of the
// pipeline posts the queue. A request never waits for an endpoint: if the queue is
// full, spans are dropped and counted.
//
// The package contains trace context (W3C Trace Context), sampling, queues, the wire
// format and the names of metrics. The gateway fills in the spans and decides when a
// request is counted.
package telemetry
