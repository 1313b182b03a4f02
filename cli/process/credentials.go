package process

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"svc/gateway/base/files"
)

// withCredentials reads variables that are not in the environment from the
// directory with the systemd credentials of the unit: from a file with the name
// of the variable, or with "svc_" in front, which is the name that
// LoadCredential=svc:DIRECTORY creates. So a secret need not be in the
// environment of a process.
func withCredentials(lookup func(string) (string, bool)) func(string) (string, bool) {
	dir, _ := lookup("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return lookup
	}
	return WithDirectory(lookup, dir, nil)
}

// WithDirectory reads variables that are not in the environment from the files
// of a directory. failed, if not nil, is called with the error of a file that
// exists and cannot be read.
func WithDirectory(lookup func(string) (string, bool), dir string, failed func(error)) func(string) (string, bool) {
	return func(name string) (string, bool) {
		if v, ok := lookup(name); ok {
			return v, true
		}
		if name == "" || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
			return "", false
		}
		for _, file := range []string{name, "svc_" + name} {
			path := filepath.Join(dir, file)
			v, _, err := files.ReadSecret(path)
			if err == nil {
				return v, true
			}
			if failed != nil && !errors.Is(err, fs.ErrNotExist) {
				failed(fmt.Errorf("%s %w", path, err))
			}
		}
		return "", false
	}
}
