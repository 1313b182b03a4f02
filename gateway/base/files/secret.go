package files

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"unicode/utf8"
)

// maxSecret bounds a file with a secret, in bytes.
const maxSecret = 64 << 10

// ReadSecret reads a file with a secret: a regular file of at most 64 KiB of UTF-8 without a NUL
// character. Symbolic links are followed. One line break at the end is removed; nothing may remain.
// The texts of errors have no path and nothing of the content.
func ReadSecret(path string) (text string, mode fs.FileMode, err error) {
	data, info, err := readRegular(path, maxSecret)
	if failed := new(fs.PathError); errors.As(err, &failed) {
		err = fmt.Errorf("cannot be read: %w", failed.Err)
	}
	if err != nil {
		return "", 0, err
	}
	if line, found := bytes.CutSuffix(data, []byte("\n")); found {
		data = bytes.TrimSuffix(line, []byte("\r"))
	}
	switch {
	case bytes.IndexByte(data, 0) >= 0:
		return "", 0, unusablef("has %d bytes, with a NUL character among them", len(data))
	case !utf8.Valid(data):
		return "", 0, unusablef("has %d bytes, which are no UTF-8 text", len(data))
	}
	return string(data), info.Mode(), nil
}
