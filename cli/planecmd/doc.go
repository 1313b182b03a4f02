// Package planecmd holds the commands that talk to the control plane over its REST API:
// agents, teams, keys, policies, traces, costs, SLA targets, and the terminal interface.
package planecmd
