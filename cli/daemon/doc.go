// Package daemon runs HTTP handlers as a process: it listens, reloads on
// SIGHUP, drains on SIGTERM or SIGINT, notifies systemd, and closes what was
// opened in reverse order.
//
// It owns listeners, HTTP server limits, signals and the order of shutdown. It
// leaves to its callers what is served, what a reload does and what readiness
// means: they pass hooks. Nothing in it touches the process itself; signals
// arrive on a channel and the listeners of a test bind port 0.
package daemon
