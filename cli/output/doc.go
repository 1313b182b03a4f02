// Package output writes results for people and for programs: tables, fields, JSON and
// YAML, and the progress of long commands. It replaces the characters in texts from
// outside that a terminal would interpret.
package output
