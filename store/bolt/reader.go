package bolt

import (
	"context"
	"io"

	"svc/store"
)

// Reader is a store that was opened to read only some of it.
type Reader struct{ t *Moved }

// OpenReader opens the store at path for reading only: the file is not changed. Its schema
// may be older than this program's. It waits like [Open] for a process that has the file open
// for writing, and other readers can open it at the same time.
func OpenReader(path string) (*Reader, error) {
	t, err := openSource(path)
	if err != nil {
		return nil, err
	}
	return &Reader{t}, nil
}

// Info describes the file. Its schema version may be older than this program's.
func (r *Reader) Info(ctx context.Context) (store.Info, error) { return r.t.Info(ctx) }

// Backup writes a copy of the file to w. The copy has the schema of the file.
func (r *Reader) Backup(ctx context.Context, w io.Writer) (int64, error) { return r.t.Backup(ctx, w) }

// ListTenants lists the tenants. Records of an older schema are not read.
func (r *Reader) ListTenants(ctx context.Context) ([]store.TenantInfo, error) {
	if r.t.schema != SchemaVersion() {
		return nil, olderSchema(r.t.path, r.t.schema)
	}
	return r.t.ListTenants(ctx)
}

// Close closes the file.
func (r *Reader) Close() error { return r.t.Close() }
