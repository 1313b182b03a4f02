package cli

import (
	"path/filepath"
	"strings"
)

// withCredentials reads variables that the environment does not have from the
// directory where systemd puts the credentials of a unit: a file with the name
// of the variable, or with "svc_" before it, which is what
// LoadCredential=svc:DIRECTORY makes of it. So a secret need not stand in the
// environment of a process.
func withCredentials(lookup func(string) (string, bool)) func(string) (string, bool) {
	dir, _ := lookup("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return lookup
	}
	return func(name string) (string, bool) {
		if v, ok := lookup(name); ok {
			return v, true
		}
		if name == "" || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
			return "", false
		}
		for _, file := range []string{name, "svc_" + name} {
			if v, ok := readCredential(filepath.Join(dir, file)); ok {
				return v, true
			}
		}
		return "", false
	}
}
