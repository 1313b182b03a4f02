// Package planecmd has the commands that call the control plane.
//
// # Documents
//
// Documents reads the documents that 'svc apply' sends, and writes those that
// 'svc export' received: YAML or JSON, several separated by "---". It supports a
// small subset of YAML: no anchors, no aliases, no tags, no merge keys. It reads and
// writes no files, and the contents of documents are checked by the control plane.
//
// # Planecmd
//
// Planecmd has the commands that call the control plane over its REST API:
// agents, teams, keys, policies, approvals, traces, costs, SLA targets, and the terminal interface.
package planecmd
