package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kubernetesVolume writes a folder as the kubelet mounts a secret: the files are in a folder of the
// version, to which the link ..data leads, and their names are links through ..data. A later version
// replaces ..data in one step, and removes the folder of the earlier one.
func kubernetesVolume(t *testing.T, volume string, version int, token string) {
	t.Helper()
	folder := func(n int) string { return fmt.Sprintf("..2026_%d", n) }
	data, next := filepath.Join(volume, "..data"), filepath.Join(volume, "..data_tmp")
	err := errors.Join(os.MkdirAll(filepath.Join(volume, folder(version)), 0o755),
		os.WriteFile(filepath.Join(volume, folder(version), "token"), []byte(token), 0o440),
		os.Symlink(folder(version), next), os.Rename(next, data))
	if version == 1 {
		err = errors.Join(err, os.Symlink("..data/token", filepath.Join(volume, "token")))
	} else {
		err = errors.Join(err, os.RemoveAll(filepath.Join(volume, folder(version-1))))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Secrets of files, mounted as Kubernetes and systemd mount them and replaced as Vault's agent does,
// take effect at a reload, all together and never in part; programs of upstreams can open them
// neither before nor after.
func TestSecretsFromFiles(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	volume, plain, credentials := dir+"/volume", dir+"/plain", dir+"/credentials"
	put := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path+".tmp", []byte(text), mode), os.Rename(path+".tmp", path)); err != nil {
			t.Fatal(err)
		}
	}
	kubernetesVolume(t, volume, 1, "s3cret-1\n")
	put(plain+"/token", "s3cret-p1", 0o600)
	put(plain+"/neighbor", "open", 0o600)
	if err := os.Symlink("plain/token", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	put(credentials+"/token", "s3cret-c", 0o400)
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	guard := newGuard(t, says(200, `{"action":"pass"}`))
	headers := fmt.Sprintf("    headers: {X-Secrets: 'Bearer ${file:%s/token}, ${file:%s/link}, ${file:%s/token}'}", volume, dir, credentials)
	r := newRig(t, strings.Replace(guardedBy("http://127.0.0.1:1", guard.URL, headers, "      when: {tool_name: read}"),
		"routes:\n", stdioUpstream("files", ", sharing: all")+"routes:\n  - match: {tool_name_in: [read, pid]}\n    upstream: files\n", 1))
	read := func(path string) string {
		t.Helper()
		got := r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"text":"` + path + `"}}}`)
		if got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		return got.body
	}
	hidden := func(when string, more ...string) {
		t.Helper()
		for _, path := range append([]string{volume + "/token", volume + "/..data/token", volume + "/..data", volume, dir + "/link", plain + "/token", credentials, credentials + "/token"}, more...) {
			if got := read(path); !strings.Contains(got, "permission denied") {
				t.Errorf("%s a program reads %s: %s", when, path, got)
			}
		}
		if got := read(plain + "/neighbor"); !strings.Contains(got, "open") {
			t.Errorf("%s a program cannot read the neighbor of a secret: %s", when, got)
		}
	}
	sent := func(when, want string) {
		t.Helper()
		read(plain + "/neighbor")
		seen := guard.seen()
		if got := seen[len(seen)-1].header.Get("X-Secrets"); got != want {
			t.Errorf("%s the guardrail gets %q, want %q", when, got, want)
		}
	}
	pid := func() string { return r.post(call("1", "pid")).body }
	const before, after = "Bearer s3cret-1, s3cret-p1, s3cret-c", "Bearer s3cret-2, s3cret-p2, s3cret-c"
	hidden("at first", volume+"/..2026_1/token")
	sent("at first", before)
	first := pid()

	kubernetesVolume(t, volume, 2, "s3cret-2")
	put(plain+"/token", "s3cret-p2\r\n", 0o600)
	hidden("after the rotation", volume+"/..2026_2/token", volume+"/..2026_2")
	sent("before the reload", before)
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent("after the reload", after)
	hidden("after the reload", volume+"/..2026_2/token", volume+"/..2026_2")
	if again := pid(); again != first {
		t.Errorf("a rotation inside of hidden folders replaces the program: %s, %s", first, again)
	}

	// A version that cannot be used changes nothing.
	for _, text := range []string{"", "s3cret\x00", strings.Repeat("x", 64<<10+1)} {
		put(plain+"/token", text, 0o600)
		if err := r.gateway.Reload(t.Context()); err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), dir+"/link") {
			t.Errorf("a reload with %.20q: %v", text, err)
		}
	}
	sent("after reloads that failed", after)
	for what, text := range map[string]string{"the log": r.logs.String(), "the audit log": fmt.Sprint(r.records())} {
		if strings.Contains(text, "s3cret") {
			t.Errorf("%s has a secret: %s", what, text)
		}
	}
}

// The secrets of upstreams take effect at a restart, as the upstreams do: a reload names the field,
// and nothing shows the value.
func TestASecretOfAnUpstreamWaitsForTheRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("s3cret-1")
	up := newUpstream(t, echo)
	r := newRig(t, strings.Replace(basic(up.URL), "url: "+up.URL, "url: "+up.URL+"\n    headers: {X-Key: '${file:"+path+"}'}", 1))
	sent := func() string {
		t.Helper()
		if got := r.post(call("1", "safe")); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		seen := up.seen()
		return seen[len(seen)-1].header.Get("X-Key")
	}
	if got := sent(); got != "s3cret-1" {
		t.Errorf("at first %q", got)
	}
	write("s3cret-2")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	ready := r.do("GET", strings.TrimSuffix(r.url, "/mcp")+"/readyz", "").body
	if got := sent(); got != "s3cret-1" || !strings.Contains(ready, `"restart_pending":["upstreams"]`) {
		t.Errorf("after the reload %q, %s", got, ready)
	}
	r.stop()
	r.start()
	if got := sent(); got != "s3cret-2" || strings.Contains(r.logs.String()+ready, "s3cret") {
		t.Errorf("after the restart %q, %s", got, r.logs)
	}
}
