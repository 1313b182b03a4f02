package storecmd

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"svc/cli/command"
	"svc/cli/process"
	"svc/server"
	"svc/store"
)

// bootstrapKeyVar is the variable with the first API key, if the operator
// chooses it.
const bootstrapKeyVar = "SVC_BOOTSTRAP_API_KEY"

// DefaultTenant is the tenant that is created in an empty store.
const DefaultTenant = "default"

// NewKeyRecord returns the record of a key for the store, without the secret.
func NewKeyRecord(name, secret string, scope store.KeyScope) *store.KeyCreate {
	return &store.KeyCreate{
		Name:   name,
		Scope:  scope,
		Prefix: server.SecretPrefix(secret),
		Digest: store.DigestKey(secret),
	}
}

// bootstrap fills an empty store with the tenant "default", its user usr_admin
// and one key of scope api. A generated key is written to
// DATA_DIR/bootstrap-key before it is stored, so that a crash in between
// cannot leave a store whose only key is unknown.
func bootstrap(ctx context.Context, env process.Env, st store.Records, dataDir string, log *slog.Logger) error {
	tenants, err := st.ListTenants(ctx)
	if err != nil {
		return fmt.Errorf("look for tenants: %w", err)
	}
	if len(tenants) > 0 {
		return warnIgnoredKey(ctx, env, st, log)
	}
	path := filepath.Join(dataDir, "bootstrap-key")
	secret, chosen := env.Getenv(bootstrapKeyVar), true
	if secret == "" {
		secret, chosen = server.NewSecret(store.ScopeAPI), false
		if err := env.ReplaceFile(path, []byte(secret+"\n"), 0o600); err != nil {
			return fmt.Errorf("keep the first API key: %w", err)
		}
	} else if scope, err := server.SecretScope(secret); err != nil || scope != store.ScopeAPI {
		if err == nil {
			err = fmt.Errorf("the key has scope %s", scope)
		}
		return command.Usage(fmt.Errorf("%s: %w", bootstrapKeyVar, err), "give svc_api_ and at least 32 characters of A-Z, a-z, 0-9, _ and -, or leave it unset")
	}
	_, created, err := st.Bootstrap(ctx, store.TenantCreate{
		ID:      DefaultTenant,
		Name:    DefaultTenant,
		AdminID: store.DefaultAdminID,
		Key:     NewKeyRecord("bootstrap", secret, store.ScopeAPI),
	})
	switch {
	case err != nil:
		return fmt.Errorf("create the first tenant: %w", err)
	case !created && chosen:
		return nil
	case !created: // another process was faster: the written key is not valid
		return env.Remove(path)
	case chosen:
		log.Info("first tenant created", "tenant", DefaultTenant, "key", "from "+bootstrapKeyVar)
		return nil
	}
	log.Info("first tenant created", "tenant", DefaultTenant, "key", path)
	if env.StderrTTY {
		fmt.Fprintf(env.Stderr, "\nAPI key of tenant %s (also in %s):\n\n  %s\n\n", DefaultTenant, path, secret)
	}
	return nil
}

// warnIgnoredKey logs that the key of the variable is not accepted: it is only for an empty store.
// The key of the first start may stay in the variable.
func warnIgnoredKey(ctx context.Context, env process.Env, st store.Records, log *slog.Logger) error {
	secret := env.Getenv(bootstrapKeyVar)
	if secret == "" {
		return nil
	}
	_, err := st.Authenticate(ctx, store.DigestKey(secret))
	if store.KindOf(err) == store.Unauthorized {
		log.Warn("the key in "+bootstrapKeyVar+" is ignored and not accepted: the store has tenants, and the variable is only for an empty one",
			"fix", "make a key with 'svc tenant key', or remove the variable")
		return nil
	}
	return err
}
