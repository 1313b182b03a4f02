// Package child starts programs that the gateway does not trust, and ends them with all their
// descendants.
//
// On Linux a helper process runs between the gateway and each program: the same binary, run with
// [HelperArg]. It is the subreaper of the program's descendants, also of those that leave its
// session; it ends them when the program has ended, and ends the program and its descendants when
// the gateway process has ended, for whatever reason. The program itself starts without
// capabilities, cannot gain privileges, has no descriptors except its three streams, and, if the
// kernel has Landlock, cannot open the folders of [Command.Hidden]. Data does not pass through
// the helper: the program inherits the streams.
//
// On other systems the program is a plain child in a process group of its own.
package child
