//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: needs Linux: it reads /proc and pins processes with taskset")
	os.Exit(2)
}
