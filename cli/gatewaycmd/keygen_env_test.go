package gatewaycmd

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"svc/cli/process"
)

// A shell can read the output of -o env, also when an id has a quote and a $.
func TestKeygenVariablesAreReadByAShell(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh")
	}
	var out bytes.Buffer
	env := process.Env{Stdout: &out, Stderr: &out, Now: time.Now}
	cmd := NewKeygenCmd(env)
	cmd.SetArgs([]string{"--id", "o'b$HOME", "--memory", "8192", "-o", "env"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	script := out.String() + `printf '%s\n' "$SVC_GATEWAY_KEY" "$SVC_CLIENT_HASH"`
	read, err := exec.Command(shell, "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(read), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "svc_gw_o'b$HOME_") || !strings.HasPrefix(lines[1], "$argon2id$v=19$m=8192,") {
		t.Errorf("a shell reads %q", lines)
	}
}
