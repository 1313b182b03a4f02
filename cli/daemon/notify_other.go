//go:build !unix

package daemon

// reloading is the message that starts a reload; there is no systemd to hear
// it.
func reloading() []string { return []string{"RELOADING=1"} }
