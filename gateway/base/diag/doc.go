// Package diag has the findings of a check of a configuration file: a code, a severity, the path
// of the field, a position in the file and a hint. It also has the renderers of findings for
// people and programs.
//
// It does not depend on files, YAML or the checked configuration: packages with a configuration
// section report through an [At], and the loader adds the positions. It is pure: no clock, no
// file, no network, no log.
package diag
