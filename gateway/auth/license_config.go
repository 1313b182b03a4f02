package auth

import (
	"path/filepath"

	"svc/gateway/base/diag"
)

// LicenseConfig is the license section of the gateway file: gateway specification,
// license.
type LicenseConfig struct {
	// Path is the absolute path of the license JWT; its mode is 0600 or
	// stricter.
	Path string `yaml:"path" env:"true"`
	// PublicKeyFile is the PEM public key (SPKI, Ed25519) that verifies the license. Empty means
	// the key of the build.
	PublicKeyFile string `yaml:"public_key_file" env:"true"`
}

// Validate reports the errors of the section. It opens no file.
func (c *LicenseConfig) Validate(at diag.At) {
	switch {
	case c.Path == "":
		at.Field("path").Hint("name the license file; `svc license init` makes one").
			Errorf("license-path-required", "is required")
	case !filepath.IsAbs(c.Path):
		at.Field("path").Hint("start it with /").Errorf("license-path-relative", "must be an absolute path")
	}
	if c.PublicKeyFile != "" && !filepath.IsAbs(c.PublicKeyFile) {
		at.Field("public_key_file").Hint("start it with /").
			Errorf("license-path-relative", "must be an absolute path")
	}
}
