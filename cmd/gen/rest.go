package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// openAPI has the parts of an OpenAPI 3.1 document that the reference uses.
type openAPI struct {
	Info struct {
		Description string `json:"description"`
	} `json:"info"`
	Tags []struct {
		Name string `json:"name"`
	} `json:"tags"`
	HTTPErrors []httpError         `json:"x-http-errors"`
	Paths      map[string]pathItem `json:"paths"`
	Components struct {
		Schemas    map[string]*schema    `json:"schemas"`
		Parameters map[string]*parameter `json:"parameters"`
		Responses  map[string]response   `json:"responses"`
	} `json:"components"`
}

// httpError is a response of the HTTP library to a request that does not
// reach a handler.
type httpError struct {
	Request string `json:"request"`
	Status  int    `json:"status"`
	Body    string `json:"body"`
}

// pathItem is the operations of one path, and their shared parameters.
type pathItem struct {
	Parameters []parameter `json:"parameters"`
	Get        *operation  `json:"get"`
	Post       *operation  `json:"post"`
	Put        *operation  `json:"put"`
	Delete     *operation  `json:"delete"`
}

type operation struct {
	Summary     string      `json:"summary"`
	Description string      `json:"description"`
	Tags        []string    `json:"tags"`
	Parameters  []parameter `json:"parameters"`
	RequestBody *struct {
		Content map[string]struct {
			Schema *schema `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
	Responses  map[string]response `json:"responses"`
	KeyScopes  []string            `json:"x-key-scopes"`
	TeamScopes []string            `json:"x-team-scopes"`
	NoTeam     bool                `json:"x-no-team"`
}

type response struct {
	Ref         string `json:"$ref"`
	Description string `json:"description"`
	Content     map[string]struct {
		Schema *schema `json:"schema"`
	} `json:"content"`
}

type parameter struct {
	Ref         string  `json:"$ref"`
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Required    bool    `json:"required"`
	Description string  `json:"description"`
	Schema      *schema `json:"schema"`
}

type schema struct {
	Ref         string             `json:"$ref"`
	Type        any                `json:"type"`
	Format      string             `json:"format"`
	Description string             `json:"description"`
	Enum        []any              `json:"enum"`
	Const       any                `json:"const"`
	Default     any                `json:"default"`
	Minimum     *float64           `json:"minimum"`
	Maximum     *float64           `json:"maximum"`
	MaxLength   *int               `json:"maxLength"`
	Required    []string           `json:"required"`
	Properties  map[string]*schema `json:"properties"`
	Items       *schema            `json:"items"`
	AnyOf       []*schema          `json:"anyOf"`
	OneOf       []*schema          `json:"oneOf"`
	AllOf       []*schema          `json:"allOf"`
}

// restReference renders the OpenAPI document of the control plane as a page.
func restReference(document []byte) (string, error) {
	var api openAPI
	if err := json.Unmarshal(document, &api); err != nil {
		return "", fmt.Errorf("openapi document: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# REST reference\n\nThe API of the control plane, made from the OpenAPI document that it serves at `/api/openapi.json`.\n\n%s\n", api.Info.Description)
	for _, tag := range api.Tags {
		fmt.Fprintf(&b, "\n## %s\n", tag.Name)
		for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
			item := api.Paths[path]
			for i, op := range []*operation{item.Get, item.Post, item.Put, item.Delete} {
				if op != nil && slices.Contains(op.Tags, tag.Name) {
					op.Parameters = slices.Concat(item.Parameters, op.Parameters)
					api.operation(&b, []string{"GET", "POST", "PUT", "DELETE"}[i], path, op)
				}
			}
		}
	}
	writeHTTPErrors(&b, api.HTTPErrors)
	b.WriteString("\n## Objects\n")
	for _, name := range slices.Sorted(maps.Keys(api.Components.Schemas)) {
		s := api.Components.Schemas[name]
		fmt.Fprintf(&b, "\n### %s\n\n", name)
		if s.Description != "" {
			fmt.Fprintf(&b, "%s\n\n", s.Description)
		}
		if parts, fields := s.fields(); len(parts)+len(fields) > 0 {
			if len(parts) > 0 {
				fmt.Fprintf(&b, "All of %s%s\n\n", strings.Join(parts, ", "), map[bool]string{true: ", and:", false: "."}[len(fields) > 0])
			}
			writeFields(&b, fields)
		} else {
			fmt.Fprintf(&b, "%s\n", s.kind())
		}
	}
	return b.String(), nil
}

const httpErrorsText = "\n## Requests that are no valid HTTP\n\n" +
	"The HTTP library answers these itself, as `text/plain` or without a body, without `X-Request-Id` and the rate headers, and closes the connection. " +
	"A client that has not sent its header within 10 s gets no answer. " +
	"Over HTTP/2 a path that cannot be read ends the stream with `PROTOCOL_ERROR`, a header over the limit is 431 with an HTML body, and a single field over the limit ends the connection; clients that honor the announced limit send neither. " +
	"HTTP without TLS to a listener with TLS is 400 with the body `Client sent an HTTP request to an HTTPS server.`\n\n" +
	"| request | status | body |\n|---|---|---|\n"

// writeHTTPErrors lists the responses of the HTTP library, which are not part
// of the API.
func writeHTTPErrors(b *strings.Builder, list []httpError) {
	b.WriteString(httpErrorsText)
	for _, e := range list {
		body := "none"
		if e.Body != "" {
			body = "`" + e.Body + "`"
		}
		fmt.Fprintf(b, "| %s | %d | %s |\n", e.Request, e.Status, body)
	}
}

func (api *openAPI) operation(b *strings.Builder, method, path string, op *operation) {
	fmt.Fprintf(b, "\n### %s %s\n\n", method, path)
	for _, text := range []string{op.Summary, op.Description} {
		if text != "" {
			fmt.Fprintf(b, "%s\n\n", text)
		}
	}
	switch {
	case len(op.KeyScopes) == 0:
		b.WriteString("No key.\n")
	case op.NoTeam:
		fmt.Fprintf(b, "Keys of scope %s; a key of scope `api` must not be limited to a team.\n", quoted(op.KeyScopes))
	case len(op.TeamScopes) == 0:
		fmt.Fprintf(b, "Keys of scope %s.\n", quoted(op.KeyScopes))
	case slices.Contains(op.KeyScopes, "ingest"):
		fmt.Fprintf(b, "Keys of scope %s; where a key of scope `api` is limited to a team, the team needs %s.\n", quoted(op.KeyScopes), quoted(op.TeamScopes))
	default:
		fmt.Fprintf(b, "Keys of scope %s; where a key is limited to a team, the team needs %s.\n", quoted(op.KeyScopes), strings.ReplaceAll(quoted(op.TeamScopes), ", ", " or "))
	}
	var fields []field
	for _, p := range op.Parameters {
		if p.Ref != "" {
			p = *api.Components.Parameters[p.Ref[strings.LastIndexByte(p.Ref, '/')+1:]]
		}
		about := p.Description
		if about == "" && p.Schema != nil {
			about = p.Schema.Description
		}
		fields = append(fields, field{p.Name + " (" + p.In + ")", p.Required, p.Schema.kind(), about})
	}
	if len(fields) > 0 {
		b.WriteString("\n")
		writeFields(b, fields)
	}
	if op.RequestBody != nil {
		for _, media := range slices.Sorted(maps.Keys(op.RequestBody.Content)) {
			fmt.Fprintf(b, "\nBody, `%s`: %s\n", media, op.RequestBody.Content[media].Schema.kind())
		}
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		answer := op.Responses[status]
		if !strings.HasPrefix(status, "2") && status != "304" {
			continue
		}
		if answer.Ref != "" {
			answer = api.Components.Responses[answer.Ref[strings.LastIndexByte(answer.Ref, '/')+1:]]
		}
		fmt.Fprintf(b, "\n%s: %s", status, answer.Description)
		for _, media := range slices.Sorted(maps.Keys(answer.Content)) {
			fmt.Fprintf(b, " `%s`: %s.", media, answer.Content[media].Schema.kind())
		}
		b.WriteString("\n")
	}
}

// field is a row of a table of parameters or members.
type field struct {
	name     string
	required bool
	kind     string
	about    string
}

func writeFields(b *strings.Builder, fields []field) {
	b.WriteString("| name | | value | |\n|---|---|---|---|\n")
	for _, f := range fields {
		needed := ""
		if f.required {
			needed = "required"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.name, needed, strings.ReplaceAll(f.kind, "|", "\\|"), strings.ReplaceAll(f.about, "|", "\\|"))
	}
}

// fields returns the names of the objects that a schema is composed of, and
// its own members sorted by name.
func (s *schema) fields() (parts []string, fields []field) {
	for _, part := range s.AllOf {
		if part.Ref != "" {
			parts = append(parts, link(part.Ref))
			continue
		}
		_, more := part.fields()
		fields = append(fields, more...)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		fields = append(fields, field{name, slices.Contains(s.Required, name), p.kind(), p.Description})
	}
	return parts, fields
}

// kind describes a value in a few words.
func (s *schema) kind() string {
	switch {
	case s == nil:
		return "anything"
	case s.Ref != "":
		return link(s.Ref)
	case len(s.AnyOf) > 0:
		return kinds(s.AnyOf)
	case len(s.OneOf) > 0:
		return kinds(s.OneOf)
	case len(s.AllOf) > 0:
		return strings.ReplaceAll(kinds(s.AllOf), " or ", " with ")
	case s.Items != nil:
		return "list of " + s.Items.kind()
	case s.Const != nil:
		return fmt.Sprintf("`%v`", s.Const)
	case len(s.Enum) > 0:
		values := make([]string, len(s.Enum))
		for i, v := range s.Enum {
			values[i] = fmt.Sprintf("`%v`", v)
		}
		return strings.Join(values, ", ") + s.preset()
	case len(s.Properties) > 0:
		_, fields := s.fields()
		members := make([]string, len(fields))
		for i, f := range fields {
			members[i] = fmt.Sprintf("`%s`: %s", f.name, f.kind)
		}
		return "object of " + strings.Join(members, ", ")
	}
	return s.scalar() + s.preset()
}

func (s *schema) scalar() string {
	kind := "any JSON"
	switch t := s.Type.(type) {
	case string:
		kind = t
	case []any:
		names := make([]string, len(t))
		for i, n := range t {
			names[i] = fmt.Sprint(n)
		}
		kind = strings.Join(names, " or ")
	}
	if s.Format != "" {
		kind += ", " + s.Format
	}
	if s.Minimum != nil {
		kind += fmt.Sprintf(", at least %v", *s.Minimum)
	}
	if s.Maximum != nil {
		kind += fmt.Sprintf(", at most %v", *s.Maximum)
	}
	if s.MaxLength != nil {
		kind += fmt.Sprintf(", at most %d characters", *s.MaxLength)
	}
	return kind
}

func (s *schema) preset() string {
	if s.Default == nil {
		return ""
	}
	return fmt.Sprintf("; default `%v`", s.Default)
}

func kinds(list []*schema) string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.kind()
	}
	return strings.Join(names, " or ")
}

func link(ref string) string {
	name := ref[strings.LastIndexByte(ref, '/')+1:]
	return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
}

func quoted(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }
