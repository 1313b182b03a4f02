package cli

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
