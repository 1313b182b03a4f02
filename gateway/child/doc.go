// Package child starts programs that the gateway does not trust, and ends them with
// all that they have started.
//
// On Linux a helper process stands between the gateway and each program: the same
// binary, run with [HelperArg]. It adopts every descendant of the program, also those
// that leave its session, ends them when the program has ended, and ends program and
// descendants when the gateway is gone, however that came about. The program itself
// starts without capabilities, cannot gain privileges, has no descriptors but its
// three streams, and cannot open the folders of [Command.Hidden] where the kernel has
// Landlock. Data does not pass through the helper: it hands its streams on.
//
// On other systems the program is a plain child in a process group of its own.
package child
