// Package config loads the gateway's file: strictly, with all findings at once and with
// their positions, with defaults and ${NAME} expansion, validated as a whole. It also
// determines which changes a reload can apply (Apply), and generates the schema for
// editors (Schema) and the reference for readers (Markdown).
//
// The sections that another package uses are declared in that package; this package
// composes them, owns all other sections, and validates references between sections. It
// does not open the files that the configuration names.
package config
