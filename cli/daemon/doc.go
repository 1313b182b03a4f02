// Package daemon runs HTTP handlers as a process: it listens, reloads on
// SIGHUP, drains on SIGTERM or SIGINT, notifies systemd, and closes everything
// in reverse order.
//
// The package contains listeners, HTTP server limits, signals and the order of
// shutdown. Callers pass hooks for what is served, what a reload does and what
// readiness means. The package does not use the process itself: signals arrive
// on a channel, and the listeners of a test bind port 0.
package daemon
