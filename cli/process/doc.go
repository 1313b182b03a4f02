// Package process is what commands take from the process around them: streams, the
// environment with the credentials of a systemd unit, signals, the clock, files, and
// the identity of the build. It is the only package of the command line that touches
// package os, so that every command can run in a test.
package process
