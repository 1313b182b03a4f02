// Package command is what every command shares: exit codes and errors, checks of
// arguments, flag values, groups, suggestions for wrong words, the log of servers, and
// the settings that variables and files give to flags. It reports errors and knows
// neither the control plane nor the gateway.
package command
