//go:build unix

package clickhousetest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
)

// front is the HTTP front end of the engine in the npm package chdb; it implements the
// requests of the client's HTTP mode.
//
//go:embed front.mjs
var front []byte

// embedded prepares the front end of the embedded engine.
func (s *Server) embedded(folder string) {
	s.scheme = "clickhouse+http"
	folder, err := filepath.Abs(folder)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "node_modules", "chdb")); err != nil {
		s.t.Fatalf("no package chdb in %s=%s: run npm install there", Embedded, folder)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		s.t.Fatalf("the front of the embedded engine needs node: %v", err)
	}
	path := filepath.Join(s.dir, "front.mjs")
	if err := os.WriteFile(path, front, 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.args = []string{node, path}
	s.env = []string{"CHDB_FOLDER=" + folder, "CHDB_DATA=" + filepath.Join(s.dir, "data"), "CHDB_PORT=" + s.port}
}
