package devcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/cli/storecmd"
	"svc/gateway/auth"
	"svc/gateway/base/hostname"
	"svc/server"
	"svc/store"
)

// State is DATA_DIR/dev.json: the addresses of a running 'svc dev' for scripts, and
// the keys, which are kept across restarts.
type State struct {
	ControlPlaneURL string `json:"controlPlaneUrl"`
	GatewayURL      string `json:"gatewayUrl"` // URL that ends in /mcp
	APIKey          string `json:"apiKey"`
	GatewayKey      string `json:"gatewayKey"`
	IngestKey       string `json:"ingestKey"`
}

const StateFile = "dev.json"

// load reads the file; when it does not exist, the state stays empty.
func (s *State) load(env process.Env, dataDir string) error {
	path := filepath.Join(dataDir, StateFile)
	data, err := env.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, s); err != nil {
		return command.Failed(fmt.Errorf("read %s: %w", path, err), "delete it: the next start creates new keys")
	}
	return nil
}

// save writes the file, readable by its owner only.
func (s *State) save(env process.Env, dataDir string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return env.ReplaceFile(filepath.Join(dataDir, StateFile), append(data, '\n'), 0o600)
}

// ensureAPIKeys creates the keys that the store does not know, and the tenant when
// there is none yet.
func (s *State) ensureAPIKeys(ctx context.Context, st store.Records) error {
	if s.APIKey == "" {
		s.APIKey = server.NewSecret(store.ScopeAPI)
	}
	_, created, err := st.Bootstrap(ctx, store.TenantCreate{
		ID:      storecmd.DefaultTenant,
		Name:    storecmd.DefaultTenant,
		AdminID: store.DefaultAdminID,
		Key:     storecmd.NewKeyRecord("svc dev", s.APIKey, store.ScopeAPI),
	})
	if err != nil {
		return err
	}
	if !created {
		if s.APIKey, err = ensureKey(ctx, st, s.APIKey, "svc dev", store.ScopeAPI); err != nil {
			return err
		}
	}
	s.IngestKey, err = ensureKey(ctx, st, s.IngestKey, "svc dev gateway", store.ScopeIngest)
	return err
}

// ensureKey returns secret when the store accepts it, else a new key.
func ensureKey(ctx context.Context, st store.Records, secret, name string, scope store.KeyScope) (string, error) {
	if secret != "" {
		_, err := st.Authenticate(ctx, store.DigestKey(secret))
		if err == nil {
			return secret, nil
		}
		if store.KindOf(err) != store.Unauthorized {
			return "", err
		}
	}
	tenants, err := st.ListTenants(ctx)
	if err != nil {
		return "", err
	}
	if len(tenants) == 0 {
		return "", errors.New("the store has no tenant")
	}
	secret = server.NewSecret(scope)
	record := storecmd.NewKeyRecord(name, secret, scope)
	record.CreatedBy = store.DefaultAdminID
	_, err = st.Tenant(tenants[len(tenants)-1].ID).CreateKey(ctx, *record)
	return secret, err
}

// makeLicense creates a signing key and a license on the first start, and a new
// license before the old one expires.
func (s *devStack) makeLicense(context.Context) error {
	dir := filepath.Join(s.o.dataDir, "license")
	key, public, path := filepath.Join(dir, auth.KeyFileName), filepath.Join(dir, auth.PublicKeyFileName), filepath.Join(dir, auth.FileName)
	if !s.env.Exists(key) || !s.env.Exists(public) {
		if _, _, err := auth.GenerateKey(dir); err != nil {
			return command.Failed(fmt.Errorf("make a license key: %w", err), "delete "+dir+": it is created again")
		}
	}
	verify, err := auth.ReadPublicKey(public)
	if err != nil {
		return command.Failed(err, "delete "+dir+": it is created again")
	}
	now := s.env.Now()
	l, err := auth.Load(path, verify)
	if err == nil && l.State(now.AddDate(0, 0, 30)) == auth.Valid {
		return nil
	}
	_, err = auth.Issue(auth.Request{
		KeyFile: key, Subject: "svc dev", Days: 365, GraceDays: 14, Out: path, Now: now.Add(-time.Minute),
	})
	return err
}

func (s *devStack) saveState(context.Context) error {
	if err := s.saveVariables(); err != nil {
		return err
	}
	if err := s.state.save(s.env, s.o.dataDir); err != nil {
		return fmt.Errorf("write %s: %w", StateFile, err)
	}
	s.saveContext()
	return nil
}

// devContext is the name of the context that 'svc dev' writes.
const devContext = "dev"

// saveContext stores the control plane as a context, and makes it the current one
// when there is none, until 'svc dev' stops. A context of that name for another machine belongs to
// the user and is kept. An error here does not prevent the start of 'svc dev'.
func (s *devStack) saveContext() {
	file, err := rest.Load(s.env)
	if old, ok := file.Get(devContext); err == nil && ok && !loopback(old.URL) {
		s.context = "context dev is for " + old.URL + " and stays as it is"
		return
	}
	if err == nil {
		file.Put(rest.Context{Name: devContext, URL: s.state.ControlPlaneURL, APIKey: s.state.APIKey})
		file.Current = cmp.Or(file.Current, devContext)
		if err = rest.Save(s.env, file); err == nil {
			s.d.OnClose("context", s.removeContext)
		}
	}
	switch {
	case err != nil:
		s.context = "no context: " + err.Error()
	case file.Current == devContext:
		s.context = "svc commands use this control plane: context dev"
	default:
		s.context = "svc --context dev uses this control plane; in use is " + file.Current
	}
}

// removeContext removes the context, unless it has become that of another process: the address may
// belong to another program afterwards.
func (s *devStack) removeContext() error {
	file, err := rest.Load(s.env)
	if err != nil {
		return fmt.Errorf("remove context %s: %w", devContext, err)
	}
	if own, ok := file.Get(devContext); !ok || own.URL != s.state.ControlPlaneURL || own.APIKey != s.state.APIKey {
		return nil
	}
	file.Delete(devContext)
	return rest.Save(s.env, file)
}

// loopback reports whether a URL has a loopback host.
func loopback(text string) bool {
	u, err := url.Parse(text)
	return err == nil && hostname.IsLoopback(u.Hostname())
}

// devVariablesFile is DATA_DIR/gateway.env: the values of the ${SVC_DEV_…}
// variables in gateway.yaml, for commands that read that file.
const devVariablesFile = "gateway.env"

// saveVariables writes the values in a form that shells and systemd read.
func (s *devStack) saveVariables() error {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.vars)) {
		fmt.Fprintf(&b, "%s='%s'\n", name, s.vars[name])
	}
	return s.env.ReplaceFile(filepath.Join(s.o.dataDir, devVariablesFile), []byte(b.String()), 0o600)
}
