// Package diag holds what a check of a configuration file has to say: findings
// with a code, a severity, the path of the field, a position in the file and a
// hint, and the renderers that show them to a person or a program.
//
// It knows nothing of files, of YAML or of what is checked: the packages that
// own a configuration section report through an [At], the loader adds the
// positions. It is pure: no clock, no file, no network, no log.
package diag
