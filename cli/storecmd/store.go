package storecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/output"
	"svc/cli/process"
	"svc/store/bolt"
)

func NewStoreCmd(env process.Env) *cobra.Command {
	return command.NewGroupCmd("store", "Back up, check, compact, restore, move and describe the store of the control plane",
		`  svc store backup /backup/svc-monday.db --data-dir /var/lib/svc
  svc store check /backup/svc-monday.db
  svc store restore /backup/svc-monday.db --data-dir /var/lib/svc`,
		newBackupCmd(env), newCheckCmd(env), newCompactCmd(env), newInfoCmd(env), newMigrateCmd(env), newRestoreCmd(env))
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
			p := output.NewLongProgress(env)
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
output when FILE is "-". A running server continues to read and write meanwhile.`,
		Example: `  svc store backup /backup/svc-monday.db --data-dir /var/lib/svc`,
		Args:    command.WantArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] != "-" && env.Exists(args[0]) {
				return command.Failed(fmt.Errorf("%s exists", args[0]), "name a new file")
			}
			return so.operate(cmd, env, func(op operator) error {
				var n int64
				copyTo := func(w io.Writer) (err error) {
					n, err = op.backup(cmd.Context(), w)
					return err
				}
				if args[0] == "-" {
					p := output.NewOutputProgress(env)
					defer p.End()
					return copyTo(p.Writer(env.Stdout))
				}
				p := output.NewLongProgress(env)
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
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Replace the store with a backup",
		Long: `Check a backup and replace the store with it. The server must not run. The previous
store is kept beside it under another name. After a kill or a power failure there is
either the old store or the new one.`,
		Example: `  svc store restore /backup/svc-monday.db --data-dir /var/lib/svc`,
		Args:    command.WantArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			so.fromEnvironment(cmd, env)
			return runRestore(cmd.Context(), env, so, args[0])
		},
	}
	so.addFlags(cmd)
	return cmd
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
	p := output.NewLongProgress(env)
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
			p := output.NewLongProgress(env)
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
