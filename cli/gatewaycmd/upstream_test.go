package gatewaycmd

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process/processtest"
	"svc/gateway/upstream"
	"svc/gateway/upstream/credentials"
)

// 'svc upstream login' prints the servers and the scopes, and needs consent: 'yes' at a terminal, or
// the exact hosts. --accept-issuer accepts the host of the issuer and no more: a server that names
// itself as issuer, with page, token endpoint and scopes of another provider, is not accepted by it.
func TestTheServersOfALoginAreAccepted(t *testing.T) {
	const issuer, page, tokens = "login.example:8443", "page.example", "tokens.example"
	one := []string{issuer}
	all := []string{issuer, page, tokens}
	why := []string{"hosts differ"}
	for _, tt := range []struct {
		name     string
		tty      bool
		input    string
		accepted []string
		hosts    []string
		reasons  []string
		proposed bool
		code     int
		says     string
	}{
		{"nothing to accept", false, "", nil, one, nil, false, command.ExitOK, ""},
		{"yes", true, "yes\n", nil, all, why, true, command.ExitOK, ""},
		{"y", true, "y\n", nil, all, why, false, command.ExitFailed, "not accepted"},
		{"enter", true, "\n", nil, all, why, false, command.ExitFailed, "not accepted"},
		{"end of input", true, "", nil, all, why, false, command.ExitFailed, "not accepted"},
		{"no terminal", false, "yes\n", nil, all, why, false, command.ExitUsage, "the hosts login.example:8443, page.example, tokens.example"},
		{"the flag", false, "", one, one, why, false, command.ExitOK, ""},
		{"a part of the host", false, "", []string{"login.example"}, one, why, false, command.ExitFailed, "accepts login.example"},
		{"another host, although nothing is to be accepted", true, "yes\n", []string{"example"}, one, nil, false, command.ExitFailed, "accepts example"},
		{"page and token endpoint are elsewhere", false, "", one, all, why, false, command.ExitUsage, "not accepted: the hosts page.example, tokens.example"},
		{"the token endpoint is elsewhere", false, "", all[:2], all, why, false, command.ExitUsage, "not accepted: the hosts tokens.example"},
		{"page and token endpoint are elsewhere, y", true, "y\n", one, all, why, false, command.ExitFailed, "not accepted"},
		{"page and token endpoint are elsewhere, yes", true, "yes\n", one, all, why, false, command.ExitOK, ""},
		{"all hosts", false, "", []string{issuer, tokens, page}, all, why, false, command.ExitOK, ""},
		{"the issuer is the host of the page", false, "", []string{page, issuer, tokens}, all, why, false, command.ExitFailed, "the first --accept-issuer accepts page.example"},
		{"all hosts, proposed scopes", false, "", all, all, why, true, command.ExitUsage, "not accepted: the scopes a"},
		{"the flag, proposed scopes", false, "", one, one, nil, true, command.ExitUsage, "not accepted: the scopes a"},
		{"the flag, proposed scopes, yes", true, "yes\n", one, one, nil, true, command.ExitOK, ""},
		{"proposed scopes", false, "", nil, one, nil, true, command.ExitUsage, "not accepted: the scopes a"},
	} {
		env, out, errs := processtest.New(t)
		env.StdinTTY, env.Stdin = tt.tty, strings.NewReader(tt.input)
		s := &credentials.Servers{
			Issuer: "https://login.example:8443", Page: "https://page.example/authorize", TokenEndpoint: "https://tokens.example/t",
			Hosts: tt.hosts, Scopes: []string{"a\x1b[2J", "b"}, Proposed: tt.proposed, Reasons: tt.reasons,
		}
		err := acceptServers(t.Context(), env, &upstream.Config{Name: "crm", URL: "https://mcp.example/mcp"}, s, tt.accepted)
		code := command.ExitOK
		if err != nil {
			code = err.(*command.ExitError).Code
		}
		if code != tt.code || err != nil && (!strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\x1b")) {
			t.Errorf("%s: %d, %v", tt.name, code, err)
		}
		for _, want := range []string{"https://login.example:8443", "https://page.example/authorize", "https://tokens.example/t", "https://mcp.example/mcp"} {
			if !strings.Contains(errs.String(), want) {
				t.Errorf("%s: %s is not shown:\n%s", tt.name, want, errs)
			}
		}
		if strings.Contains(errs.String(), "(proposed by the server)") != tt.proposed {
			t.Errorf("%s: %s", tt.name, errs)
		}
		if out.String() != "" || strings.Contains(errs.String(), "\x1b") {
			t.Errorf("%s: %q %q", tt.name, out, errs)
		}
	}
}

// Without a terminal the error of a login says what the operator may write to accept it.
func TestALoginWithoutATerminalSaysWhatToWrite(t *testing.T) {
	s := &credentials.Servers{Hosts: []string{"login.example", "tokens.example"}, Scopes: []string{"mail.read", "offline_access"}, Proposed: true}
	var out strings.Builder
	command.PrintError(&out, new(cobra.Command), notAccepted(s, s.Hosts))
	for _, want := range []string{"--accept-issuer login.example --accept-issuer tokens.example", `scopes in the configuration, such as ["mail.read", "offline_access"]`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
}
