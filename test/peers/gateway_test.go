package peers

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program builds svc once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "svc-peers-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "svc")
	build := exec.Command("go", "build", "-o", path, "./cmd/svc")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// gateway is the program as a process.
type gateway struct {
	t   testing.TB
	url string
	cmd *exec.Cmd
	log *bytes.Buffer
}

// startGateway runs the program with a configuration to which listen, license and
// audit are added.
func startGateway(t testing.TB, text string, env ...string) *gateway {
	t.Helper()
	svc, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(svc, args...).CombinedOutput(); err != nil {
			t.Fatalf("svc %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	run("license", "keygen", "--out", dir)
	run("license", "issue", "--key", filepath.Join(dir, "license.key"), "--subject", "test", "--days", "1", "--grace-days", "1", "--out", filepath.Join(dir, "license.jwt"))
	address := freeAddress(t)
	file := filepath.Join(dir, "svc.yaml")
	text = fmt.Sprintf("listen: %s\nlicense: {path: %s, public_key_file: %s}\naudit: {path: %s}\n%s", address,
		filepath.Join(dir, "license.jwt"), filepath.Join(dir, "license.pub"), filepath.Join(dir, "audit.jsonl"), text)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := &gateway{t: t, url: "http://" + address + "/mcp", cmd: exec.Command(svc, "gateway", "--config", file), log: &bytes.Buffer{}}
	g.cmd.Env = append(os.Environ(), env...)
	g.cmd.Stdout, g.cmd.Stderr = g.log, g.log
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.cmd.Process.Kill() })
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if resp, err := http.Get("http://" + address + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return g
			}
		}
		if time.Now().After(deadline) {
			_ = g.cmd.Process.Kill()
			_ = g.cmd.Wait()
			t.Fatalf("the gateway did not start:\n%s", g.log)
		}
	}
}

// stop ends it gracefully, so that pending spans are exported.
func (g *gateway) stop() {
	g.t.Helper()
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		g.t.Fatal(err)
	}
	if err := g.cmd.Wait(); err != nil {
		g.t.Errorf("the gateway ended with %v\n%s", err, g.log)
	}
}

// post sends a message; headers are given in pairs. It returns status and body.
func (g *gateway) post(body string, headers ...string) (int, string) {
	g.t.Helper()
	req, err := http.NewRequest(http.MethodPost, g.url, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatalf("%v\n%s", err, g.log)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}

// seen is a request as received by the upstream.
type seen struct {
	header http.Header
	body   string
}

// upstream responds to tool calls and records them by their JSON-RPC id.
type upstream struct {
	*httptest.Server
	mu  sync.Mutex
	got map[string]seen
}

func newUpstream(t *testing.T) *upstream {
	u := &upstream{got: map[string]seen{}}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Params struct{ Name string }
		}
		_ = json.Unmarshal(body, &m)
		u.mu.Lock()
		u.got[string(m.ID)] = seen{r.Header.Clone(), string(body)}
		u.mu.Unlock()
		result := `{"content":[{"type":"ui","ui":{}},{"type":"text","text":"ok"}]}`
		if m.Params.Name == "start" {
			result = `{"resultType":"task","taskId":"task-7","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) of(id string) seen {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.got[id]
}

// issuer publishes one key and signs with it.
type issuer struct {
	*httptest.Server
	key *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	i := &issuer{key: key}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"keys":[{"kty":"EC","crv":"P-256","kid":"k","use":"sig","x":%q,"y":%q}]}`, b64(point[1:33]), b64(point[33:]))
	}))
	t.Cleanup(i.Close)
	return i
}

// token returns a token that is valid for an hour.
func (i *issuer) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	claims["iss"], claims["exp"] = i.URL, time.Now().Add(time.Hour).Unix()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	signed := b64([]byte(`{"alg":"ES256","kid":"k","typ":"at+jwt"}`)) + "." + b64(payload)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + b64(signature)
}

// newClientHost serves a client metadata document over TLS. It returns the client
// id, and the CA file that the gateway has to trust.
func newClientHost(t *testing.T, name string) (id, caFile string) {
	var s *httptest.Server
	s = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"client_id": s.URL + "/client", "client_name": name})
	}))
	t.Cleanup(s.Close)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return s.URL + "/client", caFile
}
