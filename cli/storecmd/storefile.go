package storecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	serving       bool // the command is a server: it can migrate the store
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
		st, err := postgres.Open(ctx, o.url, postgres.Options{Logger: log, MaxAutoAgents: o.maxAutoAgents, Serving: o.serving, Migrate: o.serving})
		if err != nil {
			return nil, unavailable(err)
		}
		return st, nil
	}
	path, err := o.path()
	if err != nil {
		return nil, err
	}
	st, err := bolt.Open(path, bolt.Options{Now: env.Now, Logger: log, MaxAutoAgents: o.maxAutoAgents, Migrate: o.serving})
	if err != nil {
		return nil, o.inUse(err)
	}
	return st, nil
}

// unavailable adds advice to the error for a database that cannot be reached.
func unavailable(err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return command.Failed(err, "start the database, and look at host, port, user and database of --store")
	}
	return err
}

// inUse adds advice to the error for a file that another process has open.
func (o *StoreOptions) inUse(err error) error {
	switch {
	case !errors.Is(err, bolt.ErrInUse):
		return err
	case o.serving:
		return command.Failed(err, "stop the other process, or name another --data-dir")
	}
	return command.Failed(err, "name the --data-dir of the server that has it open: the command then asks that server. Or stop the other process")
}

// server returns an operator of the server that has the store open, nil if none has, and the
// location of the store.
func (o *StoreOptions) server(cmd *cobra.Command, env process.Env) (op *socketOperator, where string, err error) {
	o.fromEnvironment(cmd, env)
	if where, err = o.location(); err != nil {
		return nil, "", err
	}
	dirs := []string{o.DataDir}
	if dir := filepath.Dir(where); !o.onPostgres() && dir != o.DataDir {
		dirs = append(dirs, dir) // --store alone names the file: usually it is in the server's data directory
	}
	for _, dir := range dirs {
		found, ok := dialOperator(env, dir)
		if !ok {
			continue
		}
		held, wrong := found.path(cmd.Context())
		switch {
		case wrong != nil:
			err = wrong
		// A server on PostgreSQL has no file that a command could open.
		case o.holds(env, held, where) || o.url == "" && strings.Contains(held, "://"):
			return found, where, nil
		}
	}
	return nil, where, err // each server found, if any, has another store open
}

// holds reports whether a server's store is the one at a location; a file may be named by links.
func (o *StoreOptions) holds(env process.Env, held, where string) bool {
	return held == where || !o.onPostgres() && env.Resolve(held) == env.Resolve(where)
}

// operate runs f with an operator: through the server when one runs, otherwise on
// the store itself.
func (o *StoreOptions) operate(cmd *cobra.Command, env process.Env, f func(operator) error) (err error) {
	op, where, err := o.server(cmd, env)
	if err != nil {
		return err
	}
	if op != nil {
		return f(op)
	}
	if dir := filepath.Dir(where); !o.onPostgres() && !env.Exists(dir) {
		return command.Usagef("name the data directory of the server with --data-dir", "there is no directory %s", dir)
	}
	st, err := o.open(cmd.Context(), env, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return f(newStoreOperator(st, where, env.Now))
}

// read runs f with a reader: through the server when one runs, otherwise on the store itself,
// which is not changed and not created.
func (o *StoreOptions) read(cmd *cobra.Command, env process.Env, f func(reader) error) (err error) {
	op, where, err := o.server(cmd, env)
	if err != nil {
		return err
	}
	if op != nil {
		return f(op)
	}
	if o.onPostgres() {
		return o.readPostgres(cmd.Context(), env, f)
	}
	if !env.Exists(where) {
		return command.Usagef("name the data directory of the server with --data-dir", "there is no file %s", where)
	}
	st, err := bolt.OpenReader(where)
	if err != nil {
		return o.inUse(err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return f(storeReader{st})
}

func (o *StoreOptions) readPostgres(ctx context.Context, env process.Env, f func(reader) error) (err error) {
	info, err := postgres.Describe(ctx, o.url)
	switch {
	case err != nil:
		return unavailable(err)
	case info.SchemaVersion == 0:
		return command.Failed(fmt.Errorf("the database %s has no store", info.Location), "look at --store, or start 'svc serve' on it, which creates the store")
	}
	st, err := o.open(ctx, env, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return f(storeReader{st})
}
