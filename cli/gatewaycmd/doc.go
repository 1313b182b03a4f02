// Package gatewaycmd holds the gateway and the commands that work on its files:
// configs, test cases, keys, licenses, guardrails and audit files. Two of them can ask
// the control plane too: 'audit heads' and 'policy report'.
package gatewaycmd
