package cli

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"svc/gateway/audit"
)

// The container image works: the program that it starts exists and listens on
// all addresses of the container, on a port that it exposes; the image has
// labels for its version and license.
func TestDeployedImage(t *testing.T) {
	text, err := os.ReadFile("../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^CMD (\[.*\])$`).FindSubmatch(text)
	if m == nil {
		t.Fatal("the image has no CMD in its exec form")
	}
	var args []string
	if err := json.Unmarshal(m[1], &args); err != nil {
		t.Fatal(err)
	}
	cmd, rest, err := NewRoot().Find(args)
	if err != nil || cmd.HasSubCommands() {
		t.Fatalf("%v: %v", args, err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Fatal(err)
	}
	listen, err := cmd.Flags().GetString("listen")
	if err != nil {
		t.Fatal(err)
	}
	address, err := netip.ParseAddrPort(listen)
	if err != nil || !address.Addr().IsUnspecified() {
		t.Errorf("it listens on %s: nobody outside of the container reaches that", listen)
	}
	if !regexp.MustCompile(fmt.Sprintf(`(?m)^EXPOSE .*\b%d\b`, address.Port())).Match(text) {
		t.Errorf("port %d is not exposed", address.Port())
	}
	for _, want := range []string{`-X main.version=${VERSION}`, `-X main.commit=${COMMIT}`, `-X main.licenseKey=${LICENSE_KEY}`,
		`org.opencontainers.image.version="${VERSION}"`, `org.opencontainers.image.licenses="Apache-2.0"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the image has no %s", want)
		}
	}
}

// The systemd units start commands that exist.
func TestDeployedUnits(t *testing.T) {
	units, err := filepath.Glob("../deploy/systemd/*.service")
	if err != nil || len(units) != 2 {
		t.Fatalf("units %v, %v", units, err)
	}
	for _, path := range units {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/svc (.*)$`).FindSubmatch(text)
		if m == nil {
			t.Fatalf("%s starts no svc", path)
		}
		cmd, args, err := NewRoot().Find(strings.Fields(string(m[1])))
		if err != nil || cmd.HasSubCommands() {
			t.Errorf("%s: %s: %v", path, m[1], err)
			continue
		}
		if err := cmd.ParseFlags(args); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Only the user of the gateway reads the packaged audit file: the folder lets no group in that
// the file then refuses.
func TestDeployedAuditFileHasOneReader(t *testing.T) {
	unit, err := os.ReadFile("../deploy/systemd/svc-gateway.service")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	var cfg audit.Config
	cfg.SetDefaults()
	cfg.Path = path
	log, err := audit.Open(cfg, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^LogsDirectoryMode=0(\d+)$`).FindSubmatch(unit)
	if m == nil {
		t.Fatal("the unit has no mode of the folder")
	}
	folder, err := strconv.ParseUint(string(m[1]), 8, 32)
	if err != nil || folder&0o077 != 0 && info.Mode().Perm()&0o077 == 0 {
		t.Errorf("the folder has the mode 0%s, the audit file in it %o, %v", m[1], info.Mode().Perm(), err)
	}
}
