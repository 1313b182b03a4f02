// Package peers checks the gateway, as a process, against programs that others
// wrote and that are too large to be dependencies of svc: the OTLP receiver of the
// OpenTelemetry Collector. It knows svc only by its command line and its wire.
package peers
