// Package postgres is the store of the control plane on PostgreSQL: records and traces in
// one engine that several processes can open at the same time.
//
// It contains the schema (migrations), the SQL and the handling of engine failures. The
// number of the tenant is the first column of every key. Writes to the records of a
// tenant lock the row of the tenant, so each sees all earlier commits, as in a single
// process. Batches of traces lock another row as their last step. That row counts the
// commits: a commit number becomes visible only after all smaller ones, so streams in
// every process can read by number without gaps.
//
//	batch ── ingest.go, ingestrows.go ──▶ COPY of rows, delta of statistics ──▶ commit number
//	                                        │                  │                    │
//	                                        ▼                  ▼                    ▼
//	                                    partitions.go      merge.go (later)     feed.go
//	                                    one a day          deltas to rollups    streams, by number
//	age ── expire.go, sweep.go              days are dropped; rows, if tenants differ
//	resources ── package record ── records.go, key.go
//	every call ── run.go: transaction, repeated on a conflict ── watch.go: whether the engine responds
//	processes ── handles.go, lease.go, claim.go: who has the database open, who works in the background,
//	             which requests are in flight
//
// The SQL needs no LISTEN, no advisory locks and no procedures, so that other engines
// with the protocol of PostgreSQL may work; only PostgreSQL is tested. The part specific
// to PostgreSQL, partitions, is in partitions.go.
package postgres
