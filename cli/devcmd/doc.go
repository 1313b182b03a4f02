// Package devcmd is 'svc dev': the control plane, a gateway and a demo tool server in
// one process, with keys made for the user.
package devcmd
