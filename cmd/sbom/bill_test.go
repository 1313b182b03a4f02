package main

import (
	"bytes"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// The bill of a binary names every module of other repositories with its version, and is the
// same each time.
func TestBillNamesEveryModule(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8",
		Main:      debug.Module{Path: "svc", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "go.etcd.io/bbolt", Version: "v1.5.0", Sum: "h1:" + strings.Repeat("A", 43) + "="},
			{Path: "example.com/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/new", Version: "v2.0.0"}},
			{Path: "folder.invalid", Version: "v0.0.0", Replace: &debug.Module{Path: "./a/folder", Version: "(devel)"}},
		},
		Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "-ldflags", Value: "secret"}},
	}
	text, err := bill("svc", info)
	if err != nil {
		t.Fatal(err)
	}
	again, err := bill("svc", info)
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("two bills of one binary differ: %v", err)
	}
	var doc cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, c := range *doc.Components {
		urls = append(urls, c.PackageURL)
	}
	want := "pkg:golang/std@1.26.8 pkg:golang/go.etcd.io/bbolt@v1.5.0 pkg:golang/example.com/new@v2.0.0"
	if got := strings.Join(urls, " "); got != want {
		t.Errorf("components %s, want %s", got, want)
	}
	if hashes := (*doc.Components)[1].Hashes; hashes == nil || (*hashes)[0].Value != strings.Repeat("0", 64) {
		t.Errorf("checksum of bbolt: %+v", hashes)
	}
	if doc.SerialNumber != "" || doc.Metadata.Timestamp != "" || bytes.Contains(text, []byte("secret")) {
		t.Errorf("has data that differs between builds:\n%s", text)
	}
}
