// Command svc is the control plane, the MCP gateway and the tools around them.
package main

import (
	"os"

	"svc/cli"
	"svc/gateway/upstream/stdio"
)

//go:generate go run ../gen ../..

// Set by release builds with -ldflags "-X main.version=…"; other builds
// report the version that the Go tool recorded.
var version, commit, date, licenseKey string

func main() {
	if args := os.Args[1:]; stdio.IsHelper(args) {
		os.Exit(stdio.Help(args))
	}
	build := cli.Build{Version: version, Commit: commit, Date: date, LicenseKey: licenseKey}
	os.Exit(cli.Main(cli.Process(build), os.Args[1:]))
}
