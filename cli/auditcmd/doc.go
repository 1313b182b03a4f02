// Package auditcmd has the commands on audit files: verify, tail, stats, heads, events.
package auditcmd
