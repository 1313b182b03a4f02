// Package policycmd has the commands on the rules of a gateway's configuration: lint, test,
// explain, replay, report, and why a request was decided as it was.
package policycmd
