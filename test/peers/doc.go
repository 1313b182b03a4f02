// Package peers checks the gateway, as a process, against independent programs
// that are too large to be dependencies of svc: the OTLP receiver of the
// OpenTelemetry Collector. It uses svc only through its command line and its
// protocols.
package peers
