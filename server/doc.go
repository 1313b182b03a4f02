// Package server is the control plane: it serves the REST API over a store (control-plane
// specification).
//
//	request ─▶ handler.go   serve: one request from start to end
//	             │  routes.go        the table: each endpoint's name, keys and rate window
//	             │  auth.go          API key, tenant, permissions
//	             │  limit.go         rate windows, limit_shared.go: of several processes
//	             │  bodies.go, decode.go, idempotency.go
//	             ▼
//	           one file per resource     agents.go, teams.go, keys.go, policies.go, slas.go, costs.go,
//	             │                       traces.go, stats.go, audit.go, webhook.go
//	             │    ingest.go          traces in, package otlp: from spans
//	             │    stream.go, await.go    traces and policies as they come
//	             │    apply.go, plan.go, kind.go, export.go   documents: all resources at once
//	             ▼
//	           store ─▶ error or value ─▶ errors.go, echo.go, cursor.go ─▶ response
//
// The wire types are in store/api; durability and queries are the store's; listening, TLS and
// signals belong to the process (cli/daemon).
package server
