package storecmd

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/store"
	"svc/store/bolt"
	"svc/store/clickhouse"
	"svc/store/postgres"
)

// storeDescription is the output of 'svc store info'.
type storeDescription struct {
	Kind          string `json:"kind" yaml:"kind"`
	Location      string `json:"location" yaml:"location"`
	SchemaVersion int    `json:"schemaVersion" yaml:"schemaVersion"`
	SizeBytes     int64  `json:"sizeBytes" yaml:"sizeBytes"`
	FreeBytes     int64  `json:"freeBytes" yaml:"freeBytes"`
	// TraceStore is the location of the traces when they are in another store.
	TraceStore *storeDescription `json:"traceStore,omitempty" yaml:"traceStore,omitempty"`
}

func (d *storeDescription) row() []string {
	return []string{d.Kind, strconv.Itoa(d.SchemaVersion), strconv.FormatInt(d.SizeBytes, 10), strconv.FormatInt(d.FreeBytes, 10), d.Location}
}

func newInfoCmd(env process.Env) *cobra.Command {
	var so StoreOptions
	traceStore := ""
	f := command.FormatTable
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Describe the store: its kind, schema and size",
		Long: `Describe the store: its kind, its location (without a password), the version of its
schema and its size. If the server runs, the command asks it through the socket in the
data directory. Otherwise it reads the file or the database, and changes neither. If
'svc serve' of this version would change the schema, a line on standard error describes
the change. The store of the traces has a row of its own if --trace-store or
SVC_TRACE_STORE names one.`,
		Example: `  svc store info --data-dir /var/lib/svc
  svc store info --store postgres://svc@db1,db2/svc -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			so.fromEnvironment(cmd, env)
			info, err := so.describe(cmd, env)
			if err != nil {
				return err
			}
			// A backend returns its name; the URL of the embedded one begins with
			// bbolt.
			kind := cmp.Or(map[string]string{"bolt": "bbolt"}[info.Backend], info.Backend)
			d := storeDescription{Kind: kind, Location: info.Location, SchemaVersion: info.SchemaVersion, SizeBytes: info.SizeBytes, FreeBytes: info.FreeBytes}
			noteSchema(env, info)
			rows := [][]string{d.row()}
			if v := env.Getenv(command.SettingName("trace-store")); v != "" && !cmd.Flags().Changed("trace-store") {
				traceStore = v
			}
			if traceStore != "" {
				info, err := clickhouse.Describe(cmd.Context(), traceStore)
				if err != nil {
					return command.Failed(fmt.Errorf("store of the traces: %w", err), "look at hosts, ports, user and database of --trace-store")
				}
				noteSchema(env, info)
				d.TraceStore = &storeDescription{Kind: info.Backend, Location: info.Location, SchemaVersion: info.SchemaVersion, SizeBytes: info.SizeBytes}
				rows = append(rows, d.TraceStore.row())
			}
			if f != command.FormatTable {
				return command.WriteValue(env.Stdout, f, d)
			}
			return command.ShowTable(env, []string{"KIND", "SCHEMA", "BYTES", "FREE", "LOCATION"}, rows)
		},
	}
	so.addFlags(cmd)
	cmd.Flags().StringVar(&traceStore, "trace-store", "", "store of the traces, clickhouse://user@host1,host2/database (default the store itself)")
	command.AddFormatFlag(cmd, &f, command.FormatTable, command.FormatJSON, command.FormatYAML)
	return cmd
}

// describe describes an existing store; it does not create one.
func (o *StoreOptions) describe(cmd *cobra.Command, env process.Env) (info store.Info, err error) {
	if o.onPostgres() {
		return postgres.Describe(cmd.Context(), o.url)
	}
	err = o.read(cmd, env, func(op reader) error {
		info, err = op.info(cmd.Context())
		return err
	})
	return info, err
}

// noteSchema describes the change of an older schema that 'svc serve' of this version makes
// when it opens the store.
func noteSchema(env process.Env, info store.Info) {
	newest := map[string]int{"bolt": bolt.SchemaVersion(), "postgres": postgres.SchemaVersion(), "clickhouse": clickhouse.SchemaVersion()}[info.Backend]
	switch {
	case info.SchemaVersion == 0 || info.SchemaVersion >= newest:
	case info.Backend == "bolt":
		fmt.Fprintf(env.Stderr, "the store has schema %d: 'svc serve' of this version first writes the copy %s, and then changes it to schema %d. To go back to the earlier version: stop the server, install that version, and run 'svc store restore' with the copy\n",
			info.SchemaVersion, bolt.SchemaCopy(info.Location), newest)
	default:
		fmt.Fprintf(env.Stderr, "%s has schema %d: 'svc serve' of this version changes it to schema %d and writes no copy. Back the database up before, which is the way back to the earlier version\n",
			info.Location, info.SchemaVersion, newest)
	}
}
