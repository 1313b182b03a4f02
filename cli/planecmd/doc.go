// Package planecmd has the commands that call the control plane over its REST API:
// agents, teams, keys, policies, traces, costs, SLA targets, and the terminal interface.
package planecmd
