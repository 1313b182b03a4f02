// Package gatewaycmd has the gateway and the commands that work on its files:
// configurations, test cases, keys, licenses, guardrails and audit files. Some of them
// also call the control plane, such as 'audit heads' and 'policy report'.
package gatewaycmd
