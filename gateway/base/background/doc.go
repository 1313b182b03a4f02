// Package background runs short calls that outlive the request that caused them.
package background
