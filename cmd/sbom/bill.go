package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// bill returns the bill of materials of a binary as CycloneDX 1.6 JSON. It has
// no serial number and no time, so the same build gives the same bytes.
func bill(name string, info *debug.BuildInfo) ([]byte, error) {
	doc := cyclonedx.NewBOM()
	main := component(cyclonedx.ComponentTypeApplication, &info.Main)
	main.Name, main.BOMRef, main.PackageURL = name, name, ""
	properties := []cyclonedx.Property{{Name: "cdx:gomod:build:go", Value: info.GoVersion}}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "-trimpath":
			properties = append(properties, cyclonedx.Property{Name: "cdx:gomod:build:" + strings.TrimPrefix(s.Key, "-"), Value: s.Value})
		}
	}
	main.Properties = &properties
	doc.Metadata = &cyclonedx.Metadata{Component: &main}

	std := component(cyclonedx.ComponentTypeLibrary, &debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})
	components := []cyclonedx.Component{std}
	refs := []string{std.BOMRef}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if strings.HasPrefix(m.Path, "./") {
			continue // a module in a folder of this repository
		}
		c := component(cyclonedx.ComponentTypeLibrary, m)
		components = append(components, c)
		refs = append(refs, c.BOMRef)
	}
	doc.Components = &components
	doc.Dependencies = &[]cyclonedx.Dependency{{Ref: name, Dependencies: &refs}}
	var out bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(doc, cyclonedx.SpecVersion1_6)
	return out.Bytes(), err
}

func component(kind cyclonedx.ComponentType, m *debug.Module) cyclonedx.Component {
	url := fmt.Sprintf("pkg:golang/%s@%s", m.Path, m.Version)
	c := cyclonedx.Component{Type: kind, Name: m.Path, Version: m.Version, BOMRef: url, PackageURL: url}
	// The checksum of the module's files, as in go.sum: the SHA-256 of a list
	// of hashes, in base64 after "h1:".
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == 32 {
		c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	return c
}
