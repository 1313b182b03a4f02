// Package process is the interface between commands and their process: streams, the
// environment with the credentials of a systemd unit, signals, the clock, files, and
// the identity of the build. It is the only package of the command line that uses
// package os, so that every command can run in a test.
package process
