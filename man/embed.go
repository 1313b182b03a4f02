// Package man holds the manual pages of svc, generated from its command tree
// by cmd/gen, so that the program can show them where they are not installed.
// It owns nothing but the files.
package man

import "embed"

// Pages holds the pages under their file names, svc-serve.1 and so on.
//
//go:embed *
var Pages embed.FS
