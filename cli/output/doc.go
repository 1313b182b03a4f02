// Package output writes results for people and for programs: tables, fields, JSON and
// YAML, and the progress of long commands. Text from outside is made harmless for a
// terminal here.
package output
