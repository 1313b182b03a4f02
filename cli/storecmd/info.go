package storecmd

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/output"
	"svc/cli/process"
	"svc/store"
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
	f := output.FormatTable
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Describe the store: its kind, schema and size",
		Long: `Describe the store: its kind, its location (without a password), the version of its
schema and its size. If the server runs, the command asks it through the socket in the
data directory. Otherwise it opens the file, which migrates the schema to the version
of this program. A PostgreSQL database is read directly and not changed. The same holds
for the store of the traces, which has a row of its own if --trace-store or
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
			rows := [][]string{d.row()}
			if v := env.Getenv(command.SettingName("trace-store")); v != "" && !cmd.Flags().Changed("trace-store") {
				traceStore = v
			}
			if traceStore != "" {
				info, err := clickhouse.Describe(cmd.Context(), traceStore)
				if err != nil {
					return command.Failed(fmt.Errorf("store of the traces: %w", err), "look at hosts, ports, user and database of --trace-store")
				}
				d.TraceStore = &storeDescription{Kind: info.Backend, Location: info.Location, SchemaVersion: info.SchemaVersion, SizeBytes: info.SizeBytes}
				rows = append(rows, d.TraceStore.row())
			}
			if f != output.FormatTable {
				return output.WriteValue(env.Stdout, f, d)
			}
			return output.ShowTable(env, []string{"KIND", "SCHEMA", "BYTES", "FREE", "LOCATION"}, rows)
		},
	}
	so.addFlags(cmd)
	cmd.Flags().StringVar(&traceStore, "trace-store", "", "store of the traces, clickhouse://user@host1,host2/database (default the store itself)")
	output.AddFormatFlag(cmd, &f, output.FormatTable, output.FormatJSON, output.FormatYAML)
	return cmd
}

// describe describes an existing store; it does not create one.
func (o *StoreOptions) describe(cmd *cobra.Command, env process.Env) (info store.Info, err error) {
	if o.onPostgres() {
		return postgres.Describe(cmd.Context(), o.url)
	}
	path, err := o.path()
	if err != nil {
		return info, err
	}
	if _, running := dialOperator(o.DataDir); !running && !env.Exists(path) {
		return info, command.Usagef("name the data directory of the server with --data-dir", "there is no file %s", path)
	}
	err = o.operate(cmd, env, func(op operator) error {
		info, err = op.info(cmd.Context())
		return err
	})
	return info, err
}
