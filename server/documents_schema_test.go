package server

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// documentsSchema derives the JSON Schema of documents in files from that of the
// API.
func documentsSchema(t *testing.T) []byte {
	t.Helper()
	var doc struct {
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		t.Fatal(err)
	}
	defs := map[string]any{}
	var need func(v any)
	need = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				need(one)
			}
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				name := strings.TrimPrefix(ref, "#/components/schemas/")
				v["$ref"] = "#/$defs/" + name
				if defs[name] == nil {
					defs[name] = doc.Components.Schemas[name]
					need(defs[name])
				}
			}
			for _, one := range v {
				need(one)
			}
		}
	}
	root := map[string]any{"$ref": "#/components/schemas/Document"}
	need(root)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "A document of svc apply"
	root["$defs"] = defs
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// The schema in docs matches that of the API, accepts valid documents and rejects
// invalid ones.
func TestDocumentsSchema(t *testing.T) {
	const path = "../docs/documents.schema.json"
	want := documentsSchema(t)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s is not what openapi.yaml says (%v); run go test ./server -run TestDocumentsSchema -update", path, err)
	}
	c := jsonschema.NewCompiler()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(got))
	if err == nil {
		err = c.AddResource("documents.schema.json", parsed)
	}
	if err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("documents.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for text, valid := range map[string]bool{
		`{"kind":"Team","name":"ops"}`:                                                                        true,
		`{"kind":"Agent","name":"bot","spec":{"modelName":"m"}}`:                                              true,
		`{"kind":"Agent","name":"bot","spec":{"modelname":"m"}}`:                                              false,
		`{"kind":"Budget","name":"b","spec":{"agent":"bot","period":"daily","limitUsd":5}}`:                   true,
		`{"kind":"Budget","name":"b","spec":{"agentId":"bot","period":"daily","limitUsd":5}}`:                 false,
		`{"kind":"Policy","name":"p","spec":{"phase":"request","condition":{"type":"x"},"action":"warn"}}`:    false,
		`{"kind":"Webhook","name":"w","spec":{"url":"${SVC_WEBHOOK_W_URL}","events":["agent.created"]}}`:      true,
		`{"kind":"Webhook","name":"w","spec":{"url":"https://a.example/"}}`:                                   false,
		`{"kind":"Key","name":"p"}`:                                                                           false,
		`{"kind":"SLATarget","name":"s","spec":{"agent":"bot","errorRatePercent":1,"evaluationPeriod":"1h"}}`: true,
	} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
}
