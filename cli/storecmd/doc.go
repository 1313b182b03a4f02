// Package storecmd has the control plane and the commands that work on its store on
// this machine: 'serve', 'store' and 'tenant'.
package storecmd
