// Package deploy checks the files in deploy/compose and deploy/helm with what reads them in
// the field: Compose's own parser, the linter and the renderer of Helm, and the types of
// Kubernetes. It knows svc only by its command line.
package deploy
