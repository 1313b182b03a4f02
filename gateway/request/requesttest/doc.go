// Package requesttest makes the services of an exchange for tests of the steps of a request: one
// upstream, which is a function, and an audit file. It starts no gateway and no listener.
package requesttest
