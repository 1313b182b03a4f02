//go:build linux

// Command cluster runs svc on several machines and injects faults: two control planes, two gateways, three
// tool servers, PostgreSQL with a synchronous standby, a Redis Cluster of three masters with a replica
// each, and two shards of ClickHouse, each with the traces of one tenant. Each process has a network
// namespace of its own, so that any two can be disconnected from each other. Meanwhile clients send
// requests and verify every response.
//
//	go run ./test/cluster                    # a full round: every process killed and frozen, every pair of roles cut off
//	go run ./test/cluster -short             # some of the faults, chosen by -seed, in at most 3 minutes
//	go run ./test/cluster -traces postgres   # without ClickHouse: PostgreSQL has the traces
//	go run ./test/cluster -scale             # no faults: what two control planes ingest beside one
//
// It needs Linux, root (network namespaces), and the packages postgresql, redis-server, clickhouse-server
// and iproute2. It prints a line for each fault, and exits with status 1 if data was lost or duplicated,
// if a client got an undocumented response, or if the cluster did not recover. The namespaces have no
// route to the outside.
package main
