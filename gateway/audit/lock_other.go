//go:build !unix

package audit

import (
	"io"
	"os"
)

// lockFile opens the lock file. On systems without advisory locks a second writer of the
// audit file is not detected.
func lockFile(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, filePerm)
	if err != nil {
		return nil, err
	}
	return f, nil
}
