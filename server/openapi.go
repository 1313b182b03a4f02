package server

import (
	_ "embed"
	"net/http"
)

// document is the OpenAPI 3.1 document, generated from openapi.yaml.
//
//go:embed openapi.json
var document []byte

// OpenAPI returns the OpenAPI 3.1 document of the API, as it is served at
// /api/openapi.json. The caller must not change it.
func OpenAPI() []byte { return document }

// openAPI serves GET /api/openapi.json.
func (s *Server) openAPI(c *call) error {
	return c.taggedBody(http.StatusOK, document)
}
