package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"svc/store/bolt"
)

func newStoreCmd(env Env) *cobra.Command {
	return newGroupCmd("store", "Back up, check and restore the store of the control plane",
		`  svc store backup /backup/svc-monday.db --data-dir /var/lib/svc
  svc store check /backup/svc-monday.db
  svc store restore /backup/svc-monday.db --data-dir /var/lib/svc`,
		newBackupCmd(env), newCheckCmd(env), newRestoreCmd(env))
}

func newCheckCmd(env Env) *cobra.Command {
	var so storeOptions
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Read a whole store or backup and say whether it is sound",
		Long: `Read a whole store or backup: every key is in order, every record can be read,
every trace is indexed and counted. Without FILE it is the store of the data
directory, whose server must not run; check a backup of a running one. A file
of an older version is brought to this one.`,
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
			if !env.exists(path) {
				return usagef("", "there is no file %s", path)
			}
			switch err := bolt.Check(cmd.Context(), path); {
			case errors.Is(err, bolt.ErrInUse):
				return failed(err, "check a backup: 'svc store backup FILE', then 'svc store check FILE'")
			case err != nil:
				return err
			}
			fmt.Fprintf(env.Stderr, "%s is sound\n", path)
			return nil
		},
	}
	so.addFlags(cmd)
	return cmd
}

func newBackupCmd(env Env) *cobra.Command {
	var so storeOptions
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write a consistent copy of the store, also while the server runs",
		Long: `Write a consistent copy of the whole store to FILE (mode 0600), or to standard
output when FILE is "-". Reads and writes of a running server go on meanwhile.`,
		Example: `  svc store backup /backup/svc-monday.db --data-dir /var/lib/svc`,
		Args:    wantArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] != "-" && env.exists(args[0]) {
				return failed(fmt.Errorf("%s exists", args[0]), "name a new file")
			}
			return so.operate(cmd, env, func(op operator) error {
				var n int64
				copyTo := func(w io.Writer) (err error) {
					n, err = op.backup(cmd.Context(), w)
					return err
				}
				if args[0] == "-" {
					return copyTo(env.Stdout)
				}
				if err := env.writeStream(args[0], copyTo); err != nil {
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

func newRestoreCmd(env Env) *cobra.Command {
	var so storeOptions
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a backup in the place of the store",
		Long: `Check a backup and put it in the place of the store. The server must not run.
The store that was there is kept beside it under another name.`,
		Example: `  svc store restore /backup/svc-monday.db --data-dir /var/lib/svc`,
		Args:    wantArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			so.fromEnvironment(cmd, env)
			return runRestore(cmd.Context(), env, so, args[0])
		},
	}
	so.addFlags(cmd)
	return cmd
}

func runRestore(ctx context.Context, env Env, so storeOptions, from string) error {
	path, err := so.path()
	if err != nil {
		return err
	}
	if !env.exists(from) {
		return usagef("", "there is no file %s", from)
	}
	if err := env.privateDir(filepath.Dir(path)); err != nil {
		return err
	}
	// Whoever holds the store must be gone; that the file is damaged is no
	// obstacle, it may be why it is replaced.
	if env.exists(path) {
		st, err := bolt.Open(path, bolt.Options{Now: env.Now})
		if errors.Is(err, bolt.ErrInUse) {
			return failed(err, "stop the server first")
		}
		if err == nil {
			if err := st.Close(); err != nil {
				return fmt.Errorf("close the store: %w", err)
			}
		}
	}
	// The copy is read whole beside the place where it will stay, so that what is
	// put in place is sound, and migrated where it is old.
	candidate := path + ".restoring"
	if err := copyFile(env, from, candidate); err != nil {
		return err
	}
	if err := bolt.Check(ctx, candidate); err != nil {
		return errors.Join(fmt.Errorf("%s is not a usable backup: %w", from, err), env.remove(candidate))
	}
	kept := ""
	if env.exists(path) {
		kept = path + ".before-restore-" + env.Now().UTC().Format("20060102T150405Z")
		if err := env.rename(path, kept); err != nil {
			return errors.Join(err, env.remove(candidate))
		}
	}
	if err := env.rename(candidate, path); err != nil {
		return fmt.Errorf("put the backup in place: %w", err)
	}
	fmt.Fprintf(env.Stderr, "%s restored from %s\n", path, from)
	if kept != "" {
		fmt.Fprintf(env.Stderr, "the store that was there is kept as %s\n", kept)
	}
	return nil
}
