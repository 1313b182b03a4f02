// Package command has what all commands share: exit codes and errors, checks of arguments, flag values,
// groups, suggestions for mistyped words, the log of servers, and the settings that variables and
// files give to flags. It knows neither the control plane nor the gateway.
//
// It also writes results for people and for programs: tables, fields, JSON and YAML, and the progress
// of long commands. It replaces the characters in texts from outside that a terminal would interpret.
package command
