// Package detect finds personal data and secrets in texts, redacts them, and scores how
// much a text looks like a prompt injection (design, Governance).
//
// It works on one text at a time: the decoded value of a JSON string, a number or a
// member name. The caller decides about findings, selects the policies, and writes a
// redacted value back into its message. The package is pure: it uses no clock, no network
// and no log; everything is safe for concurrent use.
//
// The time for a text is linear in its length, for any content.
package detect
