// Package deploy checks the files in deploy/compose and deploy/helm with the programs that
// read them: Compose's own parser, the linter and the renderer of Helm, and the types of
// Kubernetes. It uses svc only through its command line.
package deploy
