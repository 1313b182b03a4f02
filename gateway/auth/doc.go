// Package auth says who is calling (gateway specification, Authentication).
//
// It owns the auth section of the configuration, the reading of the header
// that carries a key, the text form of keys, the argon2id hashes they are
// checked against, and the defence against floods of wrong keys. It leaves to
// its callers the answer that a refused request gets and what the principal is
// used for (rules, limits, audit).
//
// A [Verifier] lives as long as the process: it holds what is worth keeping
// across reloads, namely the keys that verified before and the bound on
// verifications under way. A [Keyring] is the immutable set of keys of one
// configuration snapshot and is built anew, over the same Verifier, by each
// reload.
package auth
