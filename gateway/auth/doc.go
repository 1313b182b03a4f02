// Package auth authenticates callers (gateway specification, Authentication).
//
// It contains the auth section of the configuration, the parsing of the header with a
// key, the text form of keys, their argon2id hashes, the verification of bearer tokens,
// and the limits that protect against floods of wrong keys. The callers of the package
// write the response of a rejected request and use the principal (rules, limits, audit).
//
// A [Verifier] exists as long as the process: it holds the state that outlives reloads,
// namely the keys that verified before and the limit on verifications in flight. A
// [Keyring] is the immutable set of keys of one configuration snapshot; each reload
// builds a new one with the same Verifier.
package auth
