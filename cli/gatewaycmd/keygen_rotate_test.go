package gatewaycmd

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"svc/cli/process"
	"svc/gateway/auth"
	"svc/gateway/config"
)

// rotateFile is a gateway file with a placeholder for its keys.
const rotateFile = `listen: 127.0.0.1:8081
license: {path: /etc/svc/license.jwt}
upstreams: [{name: tools, url: "http://127.0.0.1:3000/mcp"}]
default_upstream: tools
policy: {default_action: deny}
audit: {path: /var/log/svc/audit.jsonl}
auth:
  enabled: true
  keys:
`

// runRotate runs 'svc keygen --rotate' for a file, and returns its output and the time of the run.
func runRotate(t *testing.T, file string, args ...string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "svc.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	env := process.Env{
		Stdout: &out, Stderr: &out, Now: func() time.Time { return time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC) },
		LookupEnv: func(string) (string, bool) { return "", false },
	}
	cmd := NewKeygenCmd(env)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"--config", path, "--memory", "64", "--time", "1"}, args...))
	err := cmd.Execute()
	if after, readErr := os.ReadFile(path); readErr != nil || string(after) != file {
		t.Errorf("the file was changed: %v", readErr)
	}
	return out.String(), err
}

// The line that 'svc keygen --rotate' prints makes the new key another secret of the same client:
// the file with it is valid, and the old key and the new one are the same caller.
func TestRotatedKeyIsTheSameClient(t *testing.T) {
	old, err := auth.NewKey("build-bot")
	if err != nil {
		t.Fatal(err)
	}
	hash, err := auth.Hash(old, auth.Params{MemoryKiB: 64, Time: 1, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, keys, put string
		n               int
	}{
		{"hash", "    - id: build-bot\n      hash: " + hash + "\n", "      hash: " + hash + "\n", 84960},
		{"hash with an end", "    - id: build-bot\n      hash: " + hash + "\n      expires_at: 2099-01-01\n", "      hash: " + hash + "\n      expires_at: 2099-01-01\n", 84960},
		{"hashes", "    - id: build-bot\n      hashes:\n        - hash: " + hash + "\n        - {n: 84960, hash: \"" + otherHash + "\"}\n", "", 84961},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := runRotate(t, rotateFile+tt.keys, "--rotate", "build-bot")
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(out), "\n")
			added, fresh := lines[len(lines)-1], regexp.MustCompile(`(?m)^svc_gw_\S+$`).FindString(out)
			whole := rotateFile + tt.keys + "        " + added + "\n"
			if tt.put != "" {
				whole = rotateFile + strings.Replace(tt.keys, tt.put, "      "+added+"\n", 1)
			}
			file := config.ParseDocument("svc.yaml", []byte(whole), config.Options{UnsetIsInfo: true, Getenv: func(string) (string, bool) { return "", false }})
			if file.File() == nil {
				t.Fatalf("%v of\n%s", file.Findings(), whole)
			}
			ring, err := auth.NewVerifier(time.Now).Keyring(file.File().Auth)
			if err != nil {
				t.Fatal(err)
			}
			for text, n := range map[string]int{old: 0, fresh: tt.n} {
				key, err := ring.Verify(context.Background(), text, "192.0.2.1")
				if err != nil || key.ID != "build-bot" || key.N != n {
					t.Errorf("%+v, %v; want number %d", key, err, n)
				}
				if n != 0 && key != nil && !key.ExpiresAt.IsZero() {
					t.Errorf("the new secret ends with the old one: %s", key.ExpiresAt)
				}
			}
		})
	}
}

const otherHash = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$2Yqx0mJ5m0b5i7k7Yk6m3o0pF9rj4mF1uB3c2tq3y0E"

// A variable in the file stays a variable in the line to add.
func TestRotateKeepsVariables(t *testing.T) {
	out, err := runRotate(t, rotateFile+"    - {id: build-bot, hash: \"${BOT_HASH}\"}\n", "--rotate", "build-bot")
	if err != nil || !strings.Contains(out, "hashes: [{hash: '${BOT_HASH}'}, {n: 84960, ") || !strings.Contains(out, "(line 10)") {
		t.Errorf("%v, %s", err, out)
	}
}

func TestRotateErrors(t *testing.T) {
	four := "    - id: build-bot\n      hashes:\n"
	for _, n := range []string{"1", "2", "3", "4"} {
		four += "        - {n: " + n + ", hash: \"" + strings.Replace(otherHash, "c29t", "c29"+n, 1) + "\"}\n"
	}
	for _, tt := range []struct {
		name, keys, want string
		args             []string
	}{
		{"an unknown id", four, `no key with the id "nobody"`, []string{"--rotate", "nobody"}},
		{"four secrets", four, "has 4 secrets", []string{"--rotate", "build-bot"}},
		{"with --id", four, "rotate", []string{"--rotate", "build-bot", "--id", "other"}},
		{"without --rotate", four, "--config is the file of --rotate", []string{"--id", "other"}},
		{"as YAML", four, "-o yaml is a whole entry", []string{"--rotate", "build-bot", "-o", "yaml"}},
	} {
		if out, err := runRotate(t, rotateFile+tt.keys, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %s", tt.name, err, out)
		}
	}
}
