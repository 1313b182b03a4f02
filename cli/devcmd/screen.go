package devcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"svc/cli/command"
	"svc/store"
)

// Calls of the demo tools, as one POST each.
const (
	callAllowed = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shop_search_orders","arguments":{"status":"late","limit":3}}}`
	callOther   = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"handbook_search","arguments":{"text":"late"}}}`
	callDenied  = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"shop_delete_customer","arguments":{"customerId":"C-1001"}}}`
	callReading = `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"shop_read_deploy_config","arguments":{"service":"checkout"}}}`
	callSending = `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"shop_send_email","arguments":{"customerId":"C-1001","subject":"Hello","body":"How are you?"}}}`
	callAsking  = `{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"shop_refund_order","arguments":{"orderId":"O-5022","amountUsd":249,"reason":"late"}}}`
	callPing    = `{"jsonrpc":"2.0","id":0,"method":"ping"}`
)

// welcome waits until a call succeeds, so that the user's first call is as fast
// as the others, and then prints the first screen.
func (s *devStack) welcome(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := s.warmUp(ctx); err != nil {
		if errors.Is(err, context.Canceled) {
			return nil // stopped during the start
		}
		return fmt.Errorf("the first call through the gateway: %w", err)
	}
	took := s.env.Now().Sub(s.started)
	cred, err := s.cp.St.Authenticate(ctx, store.DigestKey(s.state.APIKey))
	if err == nil {
		s.link, err = s.cp.Link(cred.TenantID, cred.Key.ID)
	}
	if err != nil {
		return fmt.Errorf("a link to the page: %w", err)
	}
	_, err = io.WriteString(s.env.Stdout, s.screen(took))
	return err
}

// warmUp sends a ping through the gateway to the tools, and checks whether the
// control plane is ready.
func (s *devStack) warmUp(ctx context.Context) error {
	ping, err := http.NewRequestWithContext(ctx, http.MethodPost, s.state.GatewayURL, strings.NewReader(callPing))
	if err != nil {
		return err
	}
	ping.Header.Set("Authorization", "Bearer "+s.state.GatewayKey)
	ping.Header.Set("Content-Type", "application/json")
	ping.Header.Set("Accept", "application/json, text/event-stream")
	ready, err := http.NewRequestWithContext(ctx, http.MethodGet, s.state.ControlPlaneURL+"/readyz", nil)
	if err != nil {
		return err
	}
	for _, r := range []*http.Request{ping, ready} {
		if err := expectOK(r); err != nil {
			return err
		}
	}
	return nil
}

func expectOK(r *http.Request) error {
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s responded %s: %s", r.URL, resp.Status, command.Clean(string(body)))
	}
	return nil
}

// paint has the escape sequences of the first screen; all are empty without
// colors.
type paint struct{ bold, dim, green, cyan, red, reset string }

func newPaint(colour bool) paint {
	if !colour {
		return paint{}
	}
	return paint{bold: "\x1b[1m", dim: "\x1b[2m", green: "\x1b[32m", cyan: "\x1b[36m", red: "\x1b[31m", reset: "\x1b[0m"}
}

// screen is the text that 'svc dev' prints when everything runs. Its commands
// work when they are pasted.
func (s *devStack) screen(took time.Duration) string {
	p := newPaint(s.env.Colour(s.env.StdoutTTY))
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	row := func(name, value, note string) {
		if note != "" {
			note = strings.Repeat(" ", max(2, 30-len(value))) + p.dim + note + p.reset
		}
		line("  %s%-14s%s %s%s%s%s", p.dim, name, p.reset, p.cyan, value, p.reset, note)
	}
	step := func(n int, title, note, text string) {
		line("")
		line("  %s%d  %s%s  %s%s%s", p.bold, n, title, p.reset, p.dim, note, p.reset)
		line("")
		line("%s", text)
	}

	line("")
	line("  %ssvc dev%s is ready %sin %d ms%s", p.bold+p.green, p.reset, p.dim, took.Milliseconds(), p.reset)
	line("")
	row("Gateway", s.state.GatewayURL, "MCP, for agents")
	row("Control plane", s.state.ControlPlaneURL, "REST, for you")
	if s.link != "" {
		row("Page", s.link, "")
		row("", "opens once within a minute, later asks for the API key", "")
	}
	row("Demo shop", s.vars["SVC_DEV_SHOP_URL"], "a mail-order back office, behind the gateway")
	row("Demo handbook", s.vars["SVC_DEV_HANDBOOK_URL"], "its staff's handbook, behind the same URL")
	line("")
	row("Gateway key", s.state.GatewayKey, "")
	row("API key", s.state.APIKey, "")
	row("Ingest key", s.state.IngestKey, "")
	line("")
	row("Rules", filepath.Join(s.shownDir, "gateway.yaml"), fmt.Sprintf("edit, then: kill -HUP %d", s.env.PID))
	row("For scripts", filepath.Join(s.shownDir, StateFile), "all of the above")
	line("  %s%-14s %s%s", p.dim, "Context", command.Clean(s.context), p.reset)
	for _, m := range s.moved {
		line("  %s%s%s", p.dim, m, p.reset)
	}
	step(1, "A tool call that is "+p.green+"allowed", "late orders come back", s.curl(callAllowed))
	step(2, "One for the "+p.green+"other server", "the same URL and key", s.curl(callOther))
	step(3, "One that is "+p.red+"denied", "403: the tool server never gets the call", s.curl(callDenied))
	step(4, "One "+p.red+"denied for what was read before", "secrets, so no mail for five minutes", s.curl(callReading)+"\n"+s.curl(callSending))
	step(5, "One that "+p.cyan+"needs approval", "403: a person has been asked", s.curl(callAsking))
	step(6, "Approve it", "then paste 5 again: it passes once", s.grantCommand())
	step(7, "All of them, live", "? shows the keys, q quits", s.watchCommand())
	line("")
	line("  %sCtrl-C stops. State stays in %s.%s", p.dim, s.shownDir, p.reset)
	line("")
	return b.String()
}

// curl returns the command for one POST to the gateway.
func (s *devStack) curl(body string) string {
	return fmt.Sprintf(`curl -sS %s \
  -H 'Authorization: Bearer %s' \
  -H 'Content-Type: application/json' \
  -H 'Accept: application/json, text/event-stream' \
  -d '%s'`, s.state.GatewayURL, s.state.GatewayKey, body)
}

// watchCommand returns the command for svc tui.
func (s *devStack) watchCommand() string {
	return fmt.Sprintf("SVC_URL=%s \\\nSVC_API_KEY=%s \\\n  %s tui", s.state.ControlPlaneURL, s.state.APIKey, s.program())
}

// grantCommand returns the command that grants the newest pending approval.
func (s *devStack) grantCommand() string {
	return fmt.Sprintf("export SVC_URL=%s \\\n  SVC_API_KEY=%s && \\\n  %[3]s approvals grant \"$(%[3]s approvals list --status pending --limit 1 -o name)\"",
		s.state.ControlPlaneURL, s.state.APIKey, s.program())
}

// program returns this program for a shell: its name when the shell finds it, else its path, or go
// run when that started this process.
func (s *devStack) program() string {
	program := s.env.Executable
	switch {
	case s.env.InPath("svc") && filepath.Base(program) == "svc":
		program = "svc"
	case strings.Contains(program, "go-build") && s.env.Exists("cmd/svc/main.go"):
		program = "go run ./cmd/svc"
	case strings.ContainsAny(program, " '\"\\$"):
		program = "'" + strings.ReplaceAll(program, "'", `'\''`) + "'"
	}
	return program
}
