// Package processtest makes environments for tests of commands.
package processtest
