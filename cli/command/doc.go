// Package command has what all commands share: exit codes and errors, checks of
// arguments, flag values, groups, suggestions for mistyped words, the log of servers,
// and the settings that variables and files give to flags. It knows neither the
// control plane nor the gateway.
package command
