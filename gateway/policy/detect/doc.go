// Package detect finds personal data, secrets and injected instructions in texts, and holds answers
// against the output schemas of their tools. It is pure: it uses no clock, no network and no log;
// everything is safe for concurrent use.
//
//	text ─▶ view.go            invisible characters removed, digits and look-alikes folded
//	          │
//	          ├── scanner.go   one pass for all entities
//	          │     ├── address.go    e-mail, IP            number.go   cards, phone.go, iban.go, national.go
//	          │     └── secret.go     keyshapes.go, keyform.go, block.go, password.go, loosekey.go
//	          │          │
//	          │          ▼ matches
//	          │     redact.go     mask, hash, replace; token.go: reversible tokens
//	          │
//	          └── injection.go a score from 0 to 1
//	                leaves.go, decode.go   texts in JSON, base64, escapes
//	                fold.go, lexicon.go    letters and words with their meanings, scan.go: phrases
//	                rules.go               what meanings in which order weigh
//
//	list of tools ─▶ schema.go (learned) ─▶ schema_misfit.go: where an answer does not match
//
// It works on one text at a time: the decoded value of a JSON string, a number or a
// member name. The caller decides about findings, selects the policies, and writes a
// redacted value back into its message. The time for a text is linear in its length, for any
// content.
//
// A result whose tool declares an output schema is validated against that schema. Schemas and responses come from upstreams and are bounded: in size, in number, and in
// the work of a validation. Anything beyond a bound is not scored.
package detect
