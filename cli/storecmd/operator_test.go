package storecmd

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"svc/cli/process/processtest"
	"svc/store"
)

// The operator socket asks for the secret of its server: who can only connect, such as a program
// of a gateway inside Landlock, gets neither a key nor a list nor a backup.
func TestTheOperatorSocketAsksForItsSecret(t *testing.T) {
	var asked int
	env, _, _ := processtest.New(t)
	dir := t.TempDir()
	ln, secret, err := listenOperator(t.Context(), env, dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(secret) < 50 {
		t.Errorf("a secret of %d characters", len(secret))
	}
	for _, name := range []string{socketName, secretName} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	handler := operatorHandler(newStoreOperator(&countedStore{asked: &asked}, "", time.Now), secret)
	for _, given := range []string{"", bearer, bearer + secret[1:], secret, bearer + secret + secret} {
		for _, target := range []string{"GET /store", "GET /info", "GET /tenants", "POST /tenants", "POST /keys", "POST /links", "GET /backup"} {
			method, path, _ := strings.Cut(target, " ")
			r := httptest.NewRequest(method, path, strings.NewReader(`{"tenant":"default","name":"more"}`))
			r.Header.Set("Authorization", given)
			w := httptest.NewRecorder()
			if handler.ServeHTTP(w, r); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), secretName) {
				t.Errorf("%s with %q: %d %s", target, given, w.Code, w.Body)
			}
		}
	}
	if asked > 0 {
		t.Errorf("the store was asked %d times", asked)
	}

	// The command reads the secret from its file.
	srv := &http.Server{Handler: handler}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Shutdown(context.Background()) })
	op, ok := dialOperator(env, dir)
	if !ok {
		t.Fatal("nothing listens")
	}
	if _, err := op.tenants(t.Context()); err != nil || asked != 1 {
		t.Errorf("with the secret: %v, asked %d times", err, asked)
	}
	if err := os.WriteFile(filepath.Join(dir, secretName), []byte("of another server\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := op.tenants(t.Context()); err == nil || !strings.Contains(err.Error(), secretName) {
		t.Errorf("with another secret: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, secretName)); err != nil {
		t.Fatal(err)
	}
	if _, err := op.tenants(t.Context()); err == nil || !strings.Contains(err.Error(), "asks for a secret") || asked != 1 {
		t.Errorf("without the file: %v, asked %d times", err, asked)
	}

	// A new server has a new secret.
	srv.Close()
	next, another, err := listenOperator(t.Context(), env, dir)
	if err != nil {
		t.Fatal(err)
	}
	next.Close()
	if another == secret {
		t.Error("the secret of the former server is valid again")
	}
}

// countedStore counts the questions of the operator socket.
type countedStore struct {
	store.Engine
	asked *int
}

func (s *countedStore) ListTenants(context.Context) ([]store.TenantInfo, error) {
	*s.asked++
	return nil, nil
}

// The operator socket is private from the moment it has a path, not only after a chmod.
func TestTheOperatorSocketIsPrivateFromTheBeginning(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems have no modes of sockets without a path")
	}
	path := filepath.Join(t.TempDir(), "s")
	ln, err := privateSocket.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
