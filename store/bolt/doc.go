// Package bolt is the embedded store: one bbolt file, one process.
//
// It implements the storage of the resources of package store, the single goroutine that
// commits traces, the checks of a file before it is opened, and the buffers for data
// that does not justify a write per request. The arithmetic of statistics is in
// store/rollup, and the handling of requests is left to the callers.
//
//	batch ── ingest.go: checks, encoded ──▶ commit.go ── one transaction ──▶ file
//	          outside of the transaction     one goroutine;    │
//	                                         batches share it  ├── record.go, dict.go   traces, their strings
//	                                                           ├── block.go, facets.go  what filters read
//	                                                           └── rollups              package rollup
//	filter ── lister.go, tracefilter.go ──▶ blocks ──▶ records
//	resources ── package record ── rows.go, key.go
//	age ── expire.go                    another file ── preflight.go, check.go, replace.go, migrate.go
//
// # The tree
//
// Keys of resources are their ids, which are prefixed and sort by creation. Integers in
// keys are big-endian. "‖" joins bytes, "\0" is a zero byte.
//
//	meta                           what this file is
//	  format                       "svc control plane store"
//	  schema                       schema version, decimal
//	tenants                        id → tenant, JSON
//	tenant_names                   name → id
//	tenant_orgs                    organization id → id
//	digests                        SHA-256 of a key's secret → tenant id \0 key id
//	leases                         name → lease, JSON
//	marks                          name → time, nanoseconds, 8 bytes
//	data
//	  <tenant id>
//	    state                      counters, 8 bytes each: seq, traces, agent_changes,
//	                               horizon, minutes_from
//	    tools                      agent number ‖ tool number → first and last call, count; with tool 0: how many
//	    policy_fires               id → count, 8 bytes
//	    agents, keys, users, …     see package record
//	    dict                       kind ‖ string → number, 4 bytes
//	    dict_values                kind ‖ number → string
//	    traces                     commit number → record (see record.go)
//	    trace_ids                  packed id → commit number
//	    trace_blocks               first commit number → filter fields of up to 100 traces (see block.go)
//	    trace_facets               first commit number → which traces of a block have what (see facets.go)
//	    rollup_minute, rollup_hour bucket ‖ agent ‖ model ‖ environment → partial (see store/rollup)
//	    rollup_hour_agent, rollup_hour_model, rollup_hour_environment,
//	    rollup_day_agent, rollup_day_model, rollup_day_environment,
//	    rollup_hour_tool, rollup_day_tool, rollup_hour_rule, rollup_day_rule,
//	    rollup_hour_client, rollup_day_client
//	                               bucket ‖ number → partial
//
// A change of this tree, or of a record in it, that older code could not read needs a
// new schema version and a step in migrate.go. schema_test.go compares the tree with
// testdata/schema.golden.
package bolt
