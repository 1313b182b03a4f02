package storecmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/store"
	"svc/store/bolt"
	"svc/store/clickhouse"
	"svc/store/move"
	"svc/store/postgres"
)

// migrateOptions select the source and the target of 'svc store migrate'.
type migrateOptions struct {
	from, to   StoreOptions
	traceStore string
	dryRun     bool
	log        *slog.Logger // changes of schemas
}

func newMigrateCmd(env process.Env) *cobra.Command {
	o := migrateOptions{from: StoreOptions{flag: "from"}, to: StoreOptions{flag: "to"}}
	cmd := &cobra.Command{
		Use:   "migrate --from URL --to URL",
		Short: "Move everything in a store to another one, of the same engine or of another",
		Long: `Move everything in a store to an empty one: tenants, users, teams, agents, budgets,
SLA targets, policies, API keys, audit events with their chain, stored responses,
traces and statistics, with their ids and times. With --trace-store the traces and
what was counted of them go to ClickHouse.

Every server on the source has to be stopped; a source that a server has open is
refused, and so is a target that is not empty. The source is only read, except that an
older schema is first changed to that of this version, as 'svc serve' does: beside a
file a copy of it is written before. A migration that was killed goes on where it was when the same command is run again. At the end
both stores are read and compared, by number and digest of every kind of rows, of
traces by tenant and day. Until then no server opens the target.

Keep passwords out of the command line: PGPASSWORD and a password file work as for
'svc serve', for both databases alike.`,
		Example: `  svc store migrate --from bbolt:///var/lib/svc/svc.db --to postgres://svc@db1,db2/svc
  svc store migrate --from bbolt:///var/lib/svc/svc.db --to postgres://svc@db1/svc \
    --trace-store clickhouse://svc@ch1,ch2/svc --dry-run`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), env) },
	}
	f := cmd.Flags()
	f.StringVar(&o.from.url, "from", "", "store that is read, bbolt:///path/to.db or postgres://user@host1,host2/database")
	f.StringVar(&o.to.url, "to", "", "store that is filled, empty or not there yet")
	f.StringVar(&o.traceStore, "trace-store", "", "store that the traces go to, clickhouse://user@host1,host2/database (default that of --to)")
	f.BoolVar(&o.dryRun, "dry-run", false, "count what would be moved and check the target, and move nothing")
	command.RequireFlags(cmd, "from", "to")
	return cmd
}

// closing closes the opened stores.
type closing []func() error

func (c closing) close() (err error) {
	for i := len(c) - 1; i >= 0; i-- {
		err = errors.Join(err, c[i]())
	}
	return err
}

func (o *migrateOptions) run(ctx context.Context, env process.Env) (err error) {
	from, err := o.from.location()
	if err != nil {
		return err
	}
	to, err := o.to.location()
	if err != nil {
		return err
	}
	if from == to {
		return command.Usagef("name an empty store with --to", "--from and --to are the same store")
	}
	o.log = slog.New(slog.NewTextHandler(env.Stderr, nil))
	var open closing
	defer func() { err = errors.Join(err, open.close()) }()
	source, err := o.openSource(ctx, env)
	if err != nil {
		return err
	}
	open = append(open, source.Close)
	if o.dryRun {
		return o.plan(ctx, env, source)
	}
	opts := move.Options{From: source, Base: env.Now().Add(-time.Hour).UnixNano()}
	if opts.To, err = o.openTarget(ctx); err != nil {
		return err
	}
	open = append(open, opts.To.Close)
	if o.traceStore != "" {
		traces, err := o.openTraces(ctx)
		if err != nil {
			return err
		}
		open = append(open, traces.Close)
		opts.TracesTo = traces
	}
	unfinished, err := move.Check(ctx, opts)
	if err != nil {
		return explained(err)
	}
	if unfinished {
		fmt.Fprintf(env.Stderr, "going on with an unfinished migration to %s\n", to)
	}
	p := &migrationProgress{env: env, began: env.Now(), last: env.Now()}
	opts.Report = p.report
	err = move.Run(ctx, opts)
	p.end()
	if err != nil {
		return explained(err)
	}
	fmt.Fprintf(env.Stderr, "%d rows moved and compared in %v: start servers with --store %s%s\n",
		p.step.Total, env.Now().Sub(p.began).Round(time.Second), storeURL(to), withTraceStore(o.traceStore))
	return nil
}

// storeURL returns the location of a store in the form of --store.
func storeURL(location string) string {
	if strings.Contains(location, "://") {
		return location
	}
	return "bbolt://" + filepath.ToSlash(location)
}

func withTraceStore(url string) string {
	if url == "" {
		return ""
	}
	return " --trace-store " + clickhouse.Location(url)
}

// explained adds advice to the error of a migration.
func explained(err error) error {
	switch {
	case errors.Is(err, move.ErrNotEmpty):
		return command.Failed(err, "name an empty database, or a file that does not exist yet")
	case errors.Is(err, move.ErrOtherMigration):
		return command.Failed(err, "name the stores that the unfinished migration was between, or empty the target")
	case errors.Is(err, move.ErrMarker):
		return command.Failed(err, "empty the target and begin again; the source is as it was")
	case errors.Is(err, move.ErrDiffers):
		return command.Failed(err, "empty the target and begin again; the source is as it was, unless a server wrote to it meanwhile")
	case errors.Is(err, postgres.ErrInUse):
		return command.Failed(err, "stop every 'svc serve' on it")
	case errors.Is(err, context.Canceled), errors.Is(err, store.ErrUnavailable):
		return command.Failed(err, move.AdviceUnfinished)
	}
	return err
}

// opened adds the flag to an error of opening a store, and a hint if the store is in use.
func opened(flag string, err error, inUse string) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", flag, err)
	}
	if errors.Is(err, postgres.ErrInUse) || errors.Is(err, bolt.ErrInUse) {
		return command.Failed(err, inUse)
	}
	return err
}

func (o *migrateOptions) openSource(ctx context.Context, env process.Env) (move.Source, error) {
	if o.from.onPostgres() {
		s, err := postgres.OpenSource(ctx, o.from.url, postgres.Options{Logger: o.log, Migrate: !o.dryRun})
		return s, opened("--from", err, "stop every 'svc serve' on it")
	}
	path, err := o.from.path()
	if err != nil {
		return nil, err
	}
	if !env.Exists(path) {
		return nil, command.Usagef("", "--from: there is no file %s", path)
	}
	s, err := bolt.OpenSource(path, bolt.Options{Logger: o.log, Migrate: !o.dryRun})
	return s, opened("--from", err, "stop the server first")
}

func (o *migrateOptions) openTarget(ctx context.Context) (move.Target, error) {
	if o.to.onPostgres() {
		s, err := postgres.OpenTarget(ctx, o.to.url, postgres.Options{Logger: o.log, Migrate: !o.dryRun})
		return s, opened("--to", err, "name an empty database that no 'svc serve' uses")
	}
	path, err := o.to.path()
	if err != nil {
		return nil, err
	}
	s, err := bolt.OpenTarget(path, bolt.Options{Logger: o.log, Migrate: !o.dryRun})
	return s, opened("--to", err, "name a file that does not exist yet")
}

func (o *migrateOptions) openTraces(ctx context.Context) (*clickhouse.Moved, error) {
	s, err := clickhouse.OpenTarget(ctx, o.traceStore, clickhouse.Options{Timeout: 10 * time.Minute, Logger: o.log, Migrate: !o.dryRun})
	if err != nil {
		return nil, command.Failed(fmt.Errorf("--trace-store: %w", err), "look at hosts, ports, user and database of --trace-store")
	}
	return s, nil
}

// plan counts the rows to move, and checks the target if it exists.
func (o *migrateOptions) plan(ctx context.Context, env process.Env, source move.Source) error {
	counts, err := move.Count(ctx, source)
	if err != nil {
		return err
	}
	if err := o.checkTarget(ctx, env, source); err != nil {
		return explained(err)
	}
	var rows [][]string
	for _, kind := range move.Kinds {
		rows = append(rows, []string{string(kind), strconv.FormatInt(counts[kind], 10)})
	}
	if err := command.ShowTable(env, []string{"KIND", "ROWS"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(env.Stderr, "nothing was moved")
	return nil
}

// checkTarget opens an existing target; it does not create one.
func (o *migrateOptions) checkTarget(ctx context.Context, env process.Env, source move.Source) (err error) {
	var open closing
	defer func() { err = errors.Join(err, open.close()) }()
	opts := move.Options{From: source}
	if o.traceStore != "" {
		info, err := clickhouse.Describe(ctx, o.traceStore)
		if err != nil {
			return fmt.Errorf("--trace-store: %w", err)
		}
		if info.SchemaVersion > 0 {
			traces, err := o.openTraces(ctx)
			if err != nil {
				return err
			}
			open = append(open, traces.Close)
			opts.TracesTo = traces
		}
	}
	exists := false
	if o.to.onPostgres() {
		info, err := postgres.Describe(ctx, o.to.url)
		if err != nil {
			return fmt.Errorf("--to: %w", err)
		}
		exists = info.SchemaVersion > 0
	} else {
		path, err := o.to.path()
		if err != nil {
			return err
		}
		exists = env.Exists(path)
	}
	if !exists {
		if opts.TracesTo != nil {
			return opts.TracesTo.Empty(ctx)
		}
		return nil
	}
	if opts.To, err = o.openTarget(ctx); err != nil {
		return err
	}
	open = append(open, opts.To.Close)
	_, err = move.Check(ctx, opts)
	return err
}

// migrationProgress shows the progress of a migration: on a terminal in a line that is
// redrawn, elsewhere in a line now and then.
type migrationProgress struct {
	env         process.Env
	step        move.Step
	began, last time.Time
	first       int64 // number of rows at the start, or at the start of the comparison
	started     time.Time
	comparing   bool
	shown       bool
}

func (p *migrationProgress) report(s move.Step) {
	now := p.env.Now()
	if p.started.IsZero() || s.Comparing != p.comparing {
		p.started, p.first, p.comparing = now, s.Done, s.Comparing
	}
	p.step = s
	pause := 30 * time.Second
	if p.env.StderrTTY {
		pause = 200 * time.Millisecond
	}
	if now.Sub(p.last) < pause {
		return
	}
	p.last = now
	if p.env.StderrTTY {
		fmt.Fprintf(p.env.Stderr, "\r\x1b[K%s", p.line(now))
		p.shown = true
		return
	}
	fmt.Fprintln(p.env.Stderr, p.line(now))
}

func (p *migrationProgress) line(now time.Time) string {
	what := "moving " + string(p.step.Kind)
	if p.step.Comparing {
		what = "comparing"
	}
	text := fmt.Sprintf("%s: %d of %d rows", what, p.step.Done, max(p.step.Total, p.step.Done))
	if s := now.Sub(p.started).Seconds(); s > 0.5 {
		rate := float64(p.step.Done-p.first) / s
		text += fmt.Sprintf(", %.0f/s", rate)
		if left := p.step.Total - p.step.Done; left > 0 && rate > 0 {
			text += fmt.Sprintf(", %v left", time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second))
		}
	}
	return text
}

func (p *migrationProgress) end() {
	if p.shown {
		fmt.Fprint(p.env.Stderr, "\r\x1b[K")
	}
}
