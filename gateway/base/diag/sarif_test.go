package diag_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"svc/gateway/base/diag"
)

// sarifShape is the part of the SARIF 2.1.0 schema for the properties that are written here:
// required properties, their types, enumerated values and lower bounds (sections 3.13 version,
// 3.14 runs, 3.19 driver, 3.27 results, 3.30 regions).
const sarifShape = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "required": ["version", "runs"],
  "additionalProperties": false,
  "properties": {
    "$schema": {"type": "string", "format": "uri"},
    "version": {"const": "2.1.0"},
    "runs": {"type": "array", "items": {
      "type": "object",
      "required": ["tool"],
      "additionalProperties": false,
      "properties": {
        "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
        "tool": {"type": "object", "required": ["driver"], "additionalProperties": false, "properties": {
          "driver": {"type": "object", "required": ["name"], "additionalProperties": false, "properties": {
            "name": {"type": "string"},
            "version": {"type": "string"},
            "rules": {"type": "array", "uniqueItems": true, "items": {"type": "object", "required": ["id"], "additionalProperties": false, "properties": {
              "id": {"type": "string"},
              "shortDescription": {"type": "object", "required": ["text"]}
            }}}
          }}
        }},
        "results": {"type": "array", "items": {"type": "object", "required": ["message"], "additionalProperties": false, "properties": {
          "ruleId": {"type": "string"},
          "ruleIndex": {"type": "integer", "minimum": -1},
          "level": {"enum": ["none", "note", "warning", "error"]},
          "message": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}},
          "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
          "locations": {"type": "array", "items": {"type": "object", "additionalProperties": false, "properties": {
            "physicalLocation": {"type": "object", "required": ["artifactLocation"], "additionalProperties": false, "properties": {
              "artifactLocation": {"type": "object", "required": ["uri"], "properties": {"uri": {"type": "string", "format": "uri-reference"}}},
              "region": {"type": "object", "additionalProperties": false, "properties": {
                "startLine": {"type": "integer", "minimum": 1},
                "startColumn": {"type": "integer", "minimum": 1},
                "snippet": {"type": "object", "required": ["text"]}
              }}
            }},
            "logicalLocations": {"type": "array", "uniqueItems": true, "items": {"type": "object", "properties": {"fullyQualifiedName": {"type": "string"}}}}
          }}}
        }}}
      }
    }}
  }
}`

var renderings = []diag.Finding{
	{Code: "shadowed-rule", Severity: diag.Warning, Path: "policy.rules[1].id", Message: "never decides", Hint: "move it",
		Pos: diag.Pos{File: "conf/a b%.yaml", Line: 4, Column: 3}, Excerpt: "  - id: x", Caret: 3},
	{Code: "unreadable", Message: "cannot be read: 100%\r\n::error::forged", Pos: diag.Pos{File: "/etc/svc/c:d,e.yaml"}},
	{Severity: diag.Info, Message: "no code, no place"},
	{Code: "shadowed-rule", Severity: diag.Warning, Path: "policy.rules[2].id", Message: "never decides", Pos: diag.Pos{File: "é.yaml", Line: 9}},
}

func TestSARIFIsValid(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(sarifShape))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("sarif.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("sarif.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, findings := range map[string][]diag.Finding{"some": renderings, "none": nil} {
		var out bytes.Buffer
		help := func(code string) string { return "about " + code }
		if err := diag.WriteSARIF(&out, diag.SARIFTool{Name: "svc", Version: "1.0.0", RuleHelp: help}, findings); err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(out.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
}

// Each result refers to its rule, and has its location.
func TestSARIFResults(t *testing.T) {
	var out bytes.Buffer
	if err := diag.WriteSARIF(&out, diag.SARIFTool{Name: "svc"}, renderings); err != nil {
		t.Fatal(err)
	}
	var log struct {
		Runs []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID    string
				RuleIndex int
				Level     string
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine, StartColumn int }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(out.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	run := log.Runs[0]
	var got []string
	for _, r := range run.Results {
		if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID {
			t.Errorf("rule %d is not %s", r.RuleIndex, r.RuleID)
		}
		place := ""
		if len(r.Locations) > 0 {
			place = r.Locations[0].PhysicalLocation.ArtifactLocation.URI
		}
		got = append(got, r.Level+" "+place)
	}
	want := "warning conf/a%20b%25.yaml|error file:///etc/svc/c:d,e.yaml|note |warning %C3%A9.yaml"
	if strings.Join(got, "|") != want {
		t.Errorf("got %s, want %s", strings.Join(got, "|"), want)
	}
}

// One line per finding, whatever its text contains.
func TestGitHubIsEscaped(t *testing.T) {
	var out bytes.Buffer
	if err := diag.WriteGitHub(&out, renderings); err != nil {
		t.Fatal(err)
	}
	want := `::warning file=conf/a b%25.yaml,line=4,col=3,title=shadowed-rule::policy.rules[1].id: never decides (move it)
::error file=/etc/svc/c%3Ad%2Ce.yaml,title=unreadable::cannot be read: 100%25\u000d\u000a::error::forged
::notice::no code, no place
::warning file=é.yaml,line=9,title=shadowed-rule::policy.rules[2].id: never decides
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
