package storecmd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/store"
	"svc/store/bolt"
)

// defaultDataDir is where the packages keep the control plane's state.
const defaultDataDir = "/var/lib/svc"

// StoreOptions select the store that a command works on.
type StoreOptions struct {
	DataDir string
	url     string

	maxAutoAgents int // as in bolt.Options
}

func (o *StoreOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.DataDir, "data-dir", defaultDataDir, "directory of the control plane's state")
	f.StringVar(&o.url, "store", "", "store URL, bbolt:///path/to.db (default svc.db in the data directory)")
}

// fromEnvironment takes SVC_DATA_DIR and SVC_STORE where the flags are not
// given, as the server does.
func (o *StoreOptions) fromEnvironment(cmd *cobra.Command, env process.Env) {
	for name, value := range map[string]*string{"data-dir": &o.DataDir, "store": &o.url} {
		if v := env.Getenv(command.SettingName(name)); v != "" && !cmd.Flags().Changed(name) {
			*value = v
		}
	}
}

// path returns the absolute path of the store's file.
func (o *StoreOptions) path() (string, error) {
	if o.url == "" {
		return filepath.Abs(filepath.Join(o.DataDir, "svc.db"))
	}
	u, err := url.Parse(o.url)
	switch {
	case err != nil:
		return "", command.Usagef("write bbolt:///path/to.db", "--store is not a URL")
	case u.Scheme == "postgres" || u.Scheme == "postgresql":
		return "", command.Usagef("use bbolt:///path/to.db, or leave it out", "--store: this build has no PostgreSQL store")
	case u.Scheme != "bbolt":
		return "", command.Usagef("write bbolt:///path/to.db", "--store: unknown kind of store %q", u.Scheme)
	case u.Host != "" || u.Path == "" || u.RawQuery != "":
		return "", command.Usagef("write three slashes: bbolt:///path/to.db", "--store: %q does not name a file", o.url)
	}
	return filepath.FromSlash(u.Path), nil
}

// openedStore is an opened store of one file: records, traces, and a copy of both.
type openedStore interface {
	store.Engine
	// Backup writes a consistent copy of the whole store to w while reads and
	// writes go on, and returns its size in bytes.
	Backup(ctx context.Context, w io.Writer) (int64, error)
}

// open opens the store, or makes a new one.
func (o *StoreOptions) open(env process.Env, log *slog.Logger) (openedStore, error) {
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

// operate runs f with an operator: the server that holds the store when one
// runs, else the store itself.
func (o *StoreOptions) operate(cmd *cobra.Command, env process.Env, f func(operator) error) (err error) {
	o.fromEnvironment(cmd, env)
	path, err := o.path()
	if err != nil {
		return err
	}
	if op, ok := dialOperator(o.DataDir); ok {
		held, err := op.path(cmd.Context())
		if err != nil {
			return err
		}
		if held == path {
			return f(op)
		}
		// The server of this data directory holds another store.
	}
	if dir := filepath.Dir(path); !env.Exists(dir) {
		return command.Usagef("name the data directory of the server with --data-dir", "there is no directory %s", dir)
	}
	st, err := o.open(env, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return f(storeOperator{st, path})
}
