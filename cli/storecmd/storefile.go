package storecmd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/store"
	"svc/store/bolt"
	"svc/store/postgres"
)

// defaultDataDir is the data directory of the packaged control plane.
const defaultDataDir = "/var/lib/svc"

// StoreOptions select the store that a command works on.
type StoreOptions struct {
	DataDir string
	url     string
	flag    string // flag of the URL; empty: store

	maxAutoAgents int  // as in bolt.Options
	serving       bool // as in postgres.Options
}

func (o *StoreOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.DataDir, "data-dir", defaultDataDir, "directory of the control plane's state")
	f.StringVar(&o.url, "store", "", "store URL, bbolt:///path/to.db or postgres://user@host1,host2/database (default svc.db in the data directory)")
}

// fromEnvironment uses SVC_DATA_DIR and SVC_STORE when the flags are not given,
// as the server does.
func (o *StoreOptions) fromEnvironment(cmd *cobra.Command, env process.Env) {
	for name, value := range map[string]*string{"data-dir": &o.DataDir, "store": &o.url} {
		if v := env.Getenv(command.SettingName(name)); v != "" && !cmd.Flags().Changed(name) {
			*value = v
		}
	}
}

// onPostgres reports whether the store is a database of PostgreSQL.
func (o *StoreOptions) onPostgres() bool {
	scheme, _, _ := strings.Cut(o.url, "://")
	return scheme == "postgres" || scheme == "postgresql"
}

// path returns the absolute path of the store's file.
func (o *StoreOptions) path() (string, error) {
	if o.url == "" {
		return filepath.Abs(filepath.Join(o.DataDir, "svc.db"))
	}
	if o.onPostgres() {
		return "", command.Usagef("PostgreSQL has tools of its own for that: see docs/scale-out.md", "the command works on the file of an embedded store")
	}
	u, err := url.Parse(o.url)
	switch {
	case err != nil:
		return "", command.Usagef(storeURLs, "%s is not a URL", o.flagName())
	case u.Scheme != "bbolt":
		return "", command.Usagef(storeURLs, "%s: unknown kind of store %q", o.flagName(), u.Scheme)
	case u.Host != "" || u.Path == "" || u.RawQuery != "":
		return "", command.Usagef("write three slashes: bbolt:///path/to.db", "%s: %q does not name a file", o.flagName(), o.url)
	}
	return filepath.FromSlash(u.Path), nil
}

func (o *StoreOptions) flagName() string { return "--" + cmp.Or(o.flag, "store") }

// storeURLs is the text about the values of --store.
const storeURLs = "write bbolt:///path/to.db or postgres://user@host/database"

// location returns the location of the store without secrets: the path of its
// file, or a URL.
func (o *StoreOptions) location() (string, error) {
	if o.onPostgres() {
		return postgres.Location(o.url), nil
	}
	return o.path()
}

// backupStore is a store that can copy itself.
type backupStore interface {
	// Backup writes a consistent copy of the whole store to w while reads and
	// writes go on, and returns its size in bytes.
	Backup(ctx context.Context, w io.Writer) (int64, error)
}

// open opens the store, or creates it.
func (o *StoreOptions) open(ctx context.Context, env process.Env, log *slog.Logger) (store.Engine, error) {
	if o.onPostgres() {
		st, err := postgres.Open(ctx, o.url, postgres.Options{Logger: log, MaxAutoAgents: o.maxAutoAgents, Serving: o.serving})
		if errors.Is(err, store.ErrUnavailable) {
			return nil, command.Failed(err, "start the database, and look at host, port, user and database of --store")
		}
		if err != nil {
			return nil, err
		}
		return st, nil
	}
	path, err := o.path()
	if err != nil {
		return nil, err
	}
	st, err := bolt.Open(path, bolt.Options{Now: env.Now, Logger: log, MaxAutoAgents: o.maxAutoAgents})
	if errors.Is(err, bolt.ErrInUse) {
		return nil, command.Failed(err, "stop the other process, or name another --data-dir")
	}
	if err != nil {
		return nil, err
	}
	return st, nil
}

// operate runs f with an operator: through the server when one runs, otherwise on
// the store itself.
func (o *StoreOptions) operate(cmd *cobra.Command, env process.Env, f func(operator) error) (err error) {
	o.fromEnvironment(cmd, env)
	where, err := o.location()
	if err != nil {
		return err
	}
	if op, ok := dialOperator(o.DataDir); ok {
		held, err := op.path(cmd.Context())
		if err != nil {
			return err
		}
		// A server on PostgreSQL has no file that a command could open.
		if held == where || o.url == "" && strings.Contains(held, "://") {
			return f(op)
		}
		// The server of this data directory has another store open.
	}
	if dir := filepath.Dir(where); !o.onPostgres() && !env.Exists(dir) {
		return command.Usagef("name the data directory of the server with --data-dir", "there is no directory %s", dir)
	}
	st, err := o.open(cmd.Context(), env, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return f(storeOperator{st, where})
}
