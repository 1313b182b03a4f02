//go:build linux

// Command cluster runs svc as its users do who have outgrown one machine, and breaks it:
// two control planes, two gateways, three tool servers, PostgreSQL with a synchronous
// standby, a Redis Cluster of three masters with a replica each, and two shards of
// ClickHouse, on each of which a tenant has its traces. Each process has a network of its
// own, so that any two can be cut off from one another. Meanwhile clients send requests and
// verify every answer.
//
//	go run ./test/cluster                    # a full round: every process killed and frozen, every pair of roles cut off
//	go run ./test/cluster -short             # some of the faults, chosen by -seed, in at most 3 minutes
//	go run ./test/cluster -traces postgres   # without ClickHouse: PostgreSQL has the traces
//	go run ./test/cluster -scale             # no faults: what two control planes ingest beside one
//
// It needs Linux, root (network namespaces), and the packages postgresql, redis-server,
// clickhouse-server and iproute2. It prints a line for each fault as it goes, and ends with status 1 where
// something was lost or doubled, where a client got what no document names, or where the
// cluster did not become whole. The namespaces have no route to the outside.
package main
