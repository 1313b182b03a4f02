//go:build !unix

package audit

import (
	"fmt"
	"io"
	"os"
)

// lockFile opens the lock file. Without advisory locks it cannot tell whether
// another process writes the audit file.
func lockFile(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, filePerm)
	if err != nil {
		return nil, fmt.Errorf("open audit file: %w", err)
	}
	return f, nil
}
