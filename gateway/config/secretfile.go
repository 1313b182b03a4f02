package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"svc/gateway/base/files"
)

const (
	// filePrefix begins a reference to a file: ${file:PATH}.
	filePrefix = "file:"
	// maxSecretPath bounds such a reference, in bytes.
	maxSecretPath = 4096
	// maxSecretFiles bounds the different files of one configuration.
	maxSecretFiles = 1000
)

// secretFile is what was read from the file of a ${file:PATH}. A file is read once for all fields
// that name it, so that they have the same value.
type secretFile struct {
	text string
	err  error
}

// isSecretPath reports whether a path may stand in ${file:PATH}: it is absolute, and has neither a
// reference nor control characters.
func isSecretPath(path string) bool {
	return filepath.IsAbs(path) && !strings.Contains(path, "${") && !strings.ContainsFunc(path, unicode.IsControl)
}

// secretFile returns the text of the file of a ${file:PATH}, and reports the reason when there is
// none.
func (l *loader) secretFile(n *yaml.Node, at *path, path string) (string, bool) {
	named := "the file " + strconv.Quote(path)
	s, known := l.read[path]
	if !known {
		if len(l.read) == maxSecretFiles {
			l.nodef(n, at, codeSecretFile, "", "with %s the configuration names more than %d files in ${file:PATH}", named, maxSecretFiles)
			return "", false
		}
		if l.read == nil {
			l.read = map[string]secretFile{}
		}
		var mode fs.FileMode
		if l.files {
			s.text, mode, s.err = files.ReadSecret(path)
		}
		l.read[path] = s
		l.secretPaths = append(l.secretPaths, path)
		if mode.Perm()&0o007 != 0 {
			l.warn(n, at, "secret-file-mode", "run: chmod o= "+strconv.Quote(path)+" (of a Kubernetes volume set defaultMode: 0440)",
				fmt.Sprintf("other users of this machine can read or change %s: its mode is %04o", named, mode.Perm()))
		}
	}
	switch {
	case !l.files:
		l.unchecked(n, at, named+" is not read by this command", "'svc gateway --check' reads it")
	case s.text != "":
		return s.text, true
	case s.err == nil:
		l.unset(n, at, named+" is empty", named+" is empty here", "write the secret into the file")
	case errors.Is(s.err, fs.ErrNotExist), errors.Is(s.err, fs.ErrPermission):
		text := named + " " + s.err.Error()
		l.unset(n, at, text, text, "put the file there, and let the user that runs the gateway read it")
	default:
		l.node(n, at, codeSecretFile, "name a regular file with at most 64 KiB of text", named+" "+s.err.Error())
	}
	return "", false
}
