// Package storetest is the conformance suite of store backends: tests for the contract
// of package store. Every backend calls [Run] with a function that opens an empty
// store. The suite does not depend on how a backend stores data; the faults of a
// particular backend (damaged files, killed processes) are tested in its own package.
//
//	Run(t, open) ──┬── resources   lists.go, nouns.go, keys.go, users.go, audit.go, …: the same calls, errors and orders
//	               ├── traces      batches.go, stats.go, places.go: against what package memory answers
//	               └── faults.go, races.go, handles.go: ends of contexts, concurrent calls, several processes
package storetest
