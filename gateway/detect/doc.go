// Package detect finds personal data and secrets in texts, takes them out, and
// scores how much a text looks like a prompt injection (design, Governance).
//
// It works on one text at a time: the decoded value of a JSON string, a number
// or a member name. What is done about a finding, which policy asked for it and
// how a rewritten value gets back into its message belong to the caller. The
// package is pure: no clock, no network, no log; everything is safe for
// concurrent use.
//
// The time a text takes grows linearly with its length, whatever is in it.
package detect
