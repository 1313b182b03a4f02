// Package targets creates the transports to the upstreams of a configuration: clients for
// servers with a url, processes for programs. It decides which folders of the gateway
// programs must not read, and gives each program a folder of its own.
package targets
