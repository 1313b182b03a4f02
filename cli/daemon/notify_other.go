//go:build !unix

package daemon

// reloading is the message at the start of a reload; there is no systemd on
// these systems.
func reloading() []string { return []string{"RELOADING=1"} }
