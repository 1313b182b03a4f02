// Package plane enforces the policies of the control plane.
//
// # Detectors
//
// Detectors implements the detectors of govern with package detect.
//
// # Policies
//
// Govern fetches the policies of the control plane and applies them to messages
// (control-plane specification, Policy).
//
// It contains the current bundle: its fetching, its copy on disk, its validation, and the
// verdict of one agent's policies on one message. Detectors and the source of bundles are
// interfaces. The gateway writes the response of a blocked message and records the
// verdict; package policy implements the rules of the gateway's own file.
package plane
