// Package redistest runs real Redis servers for tests: one, or a cluster, on
// loopback, in a directory of the test, ended with the test. A test is skipped only
// if the program is missing.
package redistest
