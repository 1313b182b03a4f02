// Package govern fetches the policies of the control plane and judges messages
// by them (control-plane specification, Policy).
//
// It owns the bundle in force: its fetching, its copy on disk, its checks, and
// what the policies of one agent say of one message. It asks for detectors and
// for a source through interfaces of its own. What a refused message is answered
// with, and where a finding is written down, is for the gateway; the rules of the
// gateway's own file belong to package policy.
package govern
