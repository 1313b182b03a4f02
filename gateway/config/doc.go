// Package config reads the gateway's file: strictly, with every finding at once
// and at its place, with defaults and ${NAME} expansion, validated as a whole.
// It also says what a reload can change (Apply), and describes the file to
// editors (Schema) and to people (Markdown).
//
// The sections that another package consumes are declared there, next to the
// code that honours them; this package composes them, owns those that no other
// package owns, and checks what refers from one section to another. It leaves to
// its callers to open the files that the configuration names.
package config
