// Command sbom writes the software bill of materials of a Go binary, as
// CycloneDX JSON: the modules that the linker recorded in it, with their
// versions and checksums. Releases carry one for each binary; the program is
// never shipped.
//
//	go run ./cmd/sbom BINARY FILE
package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(binary, out string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	text, err := bill(filepath.Base(binary), info)
	if err != nil {
		return err
	}
	return os.WriteFile(out, text, 0o644)
}
