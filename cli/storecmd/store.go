package storecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/store"
	"svc/store/bolt"
)

func NewStoreCmd(env process.Env) *cobra.Command {
	return command.NewGroupCmd("store", "Back up, check, compact, restore, move and describe the store of the control plane",
		`  svc store backup /backup/svc-monday.db --data-dir /var/lib/svc
  svc store check /backup/svc-monday.db
  svc store restore /backup/svc-monday.db --data-dir /var/lib/svc`,
		newBackupCmd(env), newCheckCmd(env), newClockCmd(env), newCompactCmd(env), newInfoCmd(env), newMigrateCmd(env), newRestoreCmd(env))
}

func newCheckCmd(env process.Env) *cobra.Command {
	var so StoreOptions
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a whole store or backup for damage",
		Long: `Check a whole store or backup: keys must be in order, every record must be readable,
and every trace must be indexed and counted. Without FILE the store of the data
directory is checked, and its server must not run; if it runs, check a backup. The
file is only read: a file of an older version is not migrated.`,
		Example: `  svc store check /backup/svc-monday.db
  svc store check --data-dir /var/lib/svc`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			so.fromEnvironment(cmd, env)
			path, err := so.path()
			if len(args) == 1 {
				path, err = args[0], nil
			}
			if err != nil {
				return err
			}
			if !env.Exists(path) {
				return command.Usagef("", "there is no file %s", path)
			}
			p := command.NewLongProgress(env)
			found, err := bolt.Check(cmd.Context(), path, p.Step)
			p.End()
			switch {
			case errors.Is(err, bolt.ErrInUse):
				return command.Failed(err, "check a backup: 'svc store backup FILE', then 'svc store check FILE'")
			case err != nil:
				return err
			case found.Schema < found.Newest:
				fmt.Fprintf(env.Stderr, "%s is sound (schema %d; a server of this version brings it to %d when it opens it)\n", path, found.Schema, found.Newest)
			default:
				fmt.Fprintf(env.Stderr, "%s is sound\n", path)
			}
			return nil
		},
	}
	so.addFlags(cmd)
	return cmd
}

func newBackupCmd(env process.Env) *cobra.Command {
	var so StoreOptions
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write a consistent copy of the store, also while the server runs",
		Long: `Write a consistent copy of the whole store to FILE (mode 0600), or to standard
output when FILE is "-". A running server continues to read and write meanwhile.
A store of an older version is copied as it is.`,
		Example: `  svc store backup /backup/svc-monday.db --data-dir /var/lib/svc`,
		Args:    command.WantArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] != "-" && env.Exists(args[0]) {
				return command.Failed(fmt.Errorf("%s exists", args[0]), "name a new file")
			}
			return so.read(cmd, env, func(op reader) error {
				var n int64
				copyTo := func(w io.Writer) (err error) {
					n, err = op.backup(cmd.Context(), w)
					return err
				}
				if args[0] == "-" {
					p := command.NewOutputProgress(env)
					defer p.End()
					return copyTo(p.Writer(env.Stdout))
				}
				p := command.NewLongProgress(env)
				if info, err := op.info(cmd.Context()); err == nil {
					p.Total(info.SizeBytes)
				}
				err := env.WriteStream(args[0], func(w io.Writer) error { return copyTo(p.Writer(w)) })
				p.End()
				if err != nil {
					return fmt.Errorf("back up to %s: %w", args[0], err)
				}
				fmt.Fprintf(env.Stderr, "%d bytes written to %s\n", n, args[0])
				return nil
			})
		},
	}
	so.addFlags(cmd)
	return cmd
}

func newRestoreCmd(env process.Env) *cobra.Command {
	var so StoreOptions
	var backup time.Time
	cmd := &cobra.Command{
		Use:   "restore [FILE]",
		Short: "Replace the store with a backup",
		Long: `Check a backup and replace the store with it. The server must not run. The previous
store is kept beside it under another name. After a kill or a power failure there is
either the old store or the new one. Gateways then report again what came after the
backup.

A database is restored by the tools of PostgreSQL. Without FILE the command records
that in it, so that gateways report again. Run it before the first server starts,
or give the time of the backup with --backup-time.`,
		Example: `  svc store restore /backup/svc-monday.db --data-dir /var/lib/svc
  svc store restore --store postgres://svc@db1,db2/svc`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			so.fromEnvironment(cmd, env)
			switch {
			case so.onPostgres() && len(args) > 0:
				return command.Usagef("restore it with the tools of PostgreSQL, then leave out FILE", "a database is not restored from a file")
			case so.onPostgres():
				return recordRestore(cmd.Context(), env, so, backup)
			case cmd.Flags().Changed("backup-time"):
				return command.Usagef("leave it out: a file has its time", "--backup-time is for a database")
			case len(args) == 0:
				return command.WantArgs("FILE")(cmd, args)
			}
			return runRestore(cmd.Context(), env, so, args[0])
		},
	}
	so.addFlags(cmd)
	cmd.Flags().Var(command.TimeValue{Value: &backup, Now: env.Now}, "backup-time", "for a database, the time of the backup (default that of the last write of a server in it)")
	return cmd
}

// recordRestore records in a database that it was restored.
func recordRestore(ctx context.Context, env process.Env, so StoreOptions, backup time.Time) error {
	st, err := so.open(ctx, env, nil)
	if err != nil {
		return err
	}
	tenants, err := st.ListTenants(ctx)
	for i := 0; err == nil && i < len(tenants); i++ {
		err = st.Tenant(tenants[i].ID).LapseApprovals(ctx)
	}
	var r store.Restored
	if err == nil {
		r, err = store.MarkRestored(ctx, st, env.Now(), backup)
	}
	if err = errors.Join(err, st.Close()); err != nil {
		return fmt.Errorf("record the restore: %w", err)
	}
	from := "everything that they have"
	if !r.Backup.IsZero() {
		from = "what came after " + r.Backup.UTC().Format(time.RFC3339)
	}
	fmt.Fprintf(env.Stderr, "the restore is recorded: gateways report again %s\n", from)
	return nil
}

func runRestore(ctx context.Context, env process.Env, so StoreOptions, from string) error {
	path, err := so.path()
	if err != nil {
		return err
	}
	if !env.Exists(from) {
		return command.Usagef("", "there is no file %s", from)
	}
	if err := env.PrivateDir(filepath.Dir(path)); err != nil {
		return err
	}
	in, err := env.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	p := command.NewLongProgress(env)
	if size, ok := env.Size(from); ok {
		p.Total(size)
	}
	kept, err := bolt.Restore(ctx, p.Reader(in), path, env.Now(), p.Step)
	p.End()
	switch {
	case errors.Is(err, bolt.ErrInUse):
		return command.Failed(err, "stop the server first")
	case err != nil:
		return fmt.Errorf("restore %s: %w", from, err)
	}
	fmt.Fprintf(env.Stderr, "%s restored from %s\n", path, from)
	if kept != "" {
		fmt.Fprintf(env.Stderr, "the store that was there is kept as %s\n", kept)
	}
	return nil
}

func newCompactCmd(env process.Env) *cobra.Command {
	var so StoreOptions
	cmd := &cobra.Command{
		Use:   "compact",
		Short: "Rewrite the store without the free space of removed data",
		Long: `Rewrite the store without the free space of removed traces and other data. A store
never shrinks by itself: later writes reuse the free space. The server must not run.
The copy is checked before it replaces the store, and needs as much free disk space
as the store has data.`,
		Example: `  svc store compact --data-dir /var/lib/svc`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			so.fromEnvironment(cmd, env)
			path, err := so.path()
			if err != nil {
				return err
			}
			if !env.Exists(path) {
				return command.Usagef("name the data directory of the server with --data-dir", "there is no file %s", path)
			}
			p := command.NewLongProgress(env)
			before, after, err := bolt.Compact(cmd.Context(), path, p.Step)
			p.End()
			switch {
			case errors.Is(err, bolt.ErrInUse):
				return command.Failed(err, "stop the server first")
			case err != nil:
				return err
			}
			fmt.Fprintf(env.Stderr, "%s had %d bytes and has %d\n", path, before, after)
			return nil
		},
	}
	so.addFlags(cmd)
	return cmd
}

func newClockCmd(env process.Env) *cobra.Command {
	return command.NewGroupCmd("clock", "Manage the clock by which the control plane removes old data",
		`  svc store clock accept --data-dir /var/lib/svc`,
		newClockAcceptCmd(env))
}

func newClockAcceptCmd(env process.Env) *cobra.Command {
	var so StoreOptions
	cmd := &cobra.Command{
		Use:   "accept",
		Short: "Confirm that the clock is right, so that retention follows it at once",
		Long: `Confirm that the clock is right. When the clock is more than a day ahead of the latest
time that the store keeps, retention removes only the oldest day of data in each hour,
because a wrong clock must not remove everything. After this command the server removes
all data that is too old by the clock within 10 minutes; removed data is lost. The
command also resets a latest time that lies in the future because the clock was wrong.

If the server runs, the command uses the socket in the data directory and the clock of
the server; otherwise it opens the store and uses the clock of this machine.`,
		Example: `  svc store clock accept --data-dir /var/lib/svc
  svc store clock accept --store postgres://svc@db1,db2/svc`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return so.operate(cmd, env, func(op operator) error {
				c, err := op.acceptClock(cmd.Context())
				if err != nil {
					return fmt.Errorf("accept the clock: %w", err)
				}
				before := "none"
				if !c.Before.IsZero() {
					before = c.Before.UTC().Format(time.RFC3339)
				}
				fmt.Fprintf(env.Stderr, "the clock is accepted: the latest time of the store is %s (it was %s)\n", c.After.Format(time.RFC3339), before)
				return nil
			})
		},
	}
	so.addFlags(cmd)
	return cmd
}
