package devcmd

import (
	_ "embed"
	"encoding/json"
	"path/filepath"
	"strings"
)

// devConfigText is the gateway.yaml that 'svc dev' starts with.
//
//go:embed dev_gateway.yaml
var devConfigText string

// devConfig fills the paths of a data directory into the template.
func devConfig(dataDir string) (string, error) {
	audit, err := json.Marshal(filepath.Join(dataDir, "audit.jsonl"))
	if err != nil {
		return "", err
	}
	license, err := json.Marshal(filepath.Join(dataDir, "license", "license.jwt"))
	if err != nil {
		return "", err
	}
	public, err := json.Marshal(filepath.Join(dataDir, "license", "license.pub"))
	if err != nil {
		return "", err
	}
	// A JSON string is a valid YAML string for any path.
	return strings.NewReplacer("@AUDIT@", string(audit), "@LICENSE@", string(license), "@PUBLIC_KEY@", string(public)).Replace(devConfigText), nil
}
