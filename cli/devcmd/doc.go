// Package devcmd is 'svc dev': the control plane, a gateway and two demo tool servers in
// one process, with keys made for the user.
package devcmd
