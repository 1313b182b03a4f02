package clients

import (
	"strconv"
	"strings"
	"text/template"
)

// render fills a template. In it, q writes a string literal that is valid in Go, Python
// and TypeScript, and sh a quoted word of a shell.
func render(s *Server, text string) ([]byte, error) {
	t, err := template.New("").Funcs(template.FuncMap{
		"q":  strconv.QuoteToASCII,
		"sh": func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" },
	}).Parse(text)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	if err := t.Execute(&b, s); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSpace(b.String())), nil
}

func python(s *Server) ([]byte, error) {
	return render(s, `
import asyncio
{{- if and .KeyFile (not .Key)}}
import pathlib
{{- else if not .Key}}
import os
{{- end}}

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

{{if .Key}}KEY = {{q .Key}}{{else if .KeyFile}}KEY = pathlib.Path({{q .KeyFile}}).read_text().strip(){{else}}KEY = os.environ[{{q .KeyEnv}}]{{end}}


async def main():
    http = httpx.AsyncClient(
        headers={"Authorization": f"Bearer {KEY}"},
        timeout=httpx.Timeout(30, read=300),
    )
    async with http, streamable_http_client({{q .URL}}, http_client=http) as (read, write, *_):
        async with ClientSession(read, write) as session:
            await session.initialize()
            print([tool.name for tool in (await session.list_tools()).tools])


asyncio.run(main())
`)
}

func typescript(s *Server) ([]byte, error) {
	return render(s, `
{{- if and .KeyFile (not .Key)}}
import { readFileSync } from "node:fs";
{{- end}}
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const key = {{if .Key}}{{q .Key}}{{else if .KeyFile}}readFileSync({{q .KeyFile}}, "utf8").trim(){{else}}process.env[{{q .KeyEnv}}]{{end}};
const client = new Client({ name: "my-agent", version: "1.0.0" });
await client.connect(
  new StreamableHTTPClientTransport(new URL({{q .URL}}), {
    requestInit: { headers: { Authorization: `+"`Bearer ${key}`"+` } },
  }),
);
console.log((await client.listTools()).tools.map((tool) => tool.name));
await client.close();
`)
}

func golang(s *Server) ([]byte, error) {
	return render(s, `
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
{{- if not .Key}}
	"os"
{{- end}}
{{- if and .KeyFile (not .Key)}}
	"strings"
{{- end}}

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// withKey adds the API key to every request.
type withKey string

func (key withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(key))
	return http.DefaultTransport.RoundTrip(r)
}

func main() {
{{- if .Key}}
	key := {{q .Key}}
{{- else if .KeyFile}}
	file, err := os.ReadFile({{q .KeyFile}})
	if err != nil {
		log.Fatal(err)
	}
	key := strings.TrimSpace(string(file))
{{- else}}
	key := os.Getenv({{q .KeyEnv}})
{{- end}}
	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "my-agent", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:   {{q .URL}},
		HTTPClient: &http.Client{Transport: withKey(key)},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(tool.Name)
	}
}
`)
}

// curl reads the header from a file, because an argument would show the key to every
// user of the machine. printf is built into the shell.
func curl(s *Server) ([]byte, error) {
	return render(s, `
header=$(mktemp)   # mode 0600
printf 'Authorization: Bearer %s\n' {{if .Key}}{{sh .Key}}{{else if .KeyFile}}"$(cat {{sh .KeyFile}})"{{else}}"${{"{"}}{{.KeyEnv}}:?}"{{end}} >"$header"
curl -sS {{sh .URL}} -H @"$header" \
  -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
  -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/list' \
  -d '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'
rm -f "$header"
`)
}
