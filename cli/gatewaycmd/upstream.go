package gatewaycmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/base/diag"
	"svc/gateway/config"
	"svc/gateway/upstream"
	"svc/gateway/upstream/credentials"
)

// NewUpstreamCmd is 'svc upstream'.
func NewUpstreamCmd(env process.Env) *cobra.Command {
	return command.NewGroupCmd("upstream", "Manage logins at hosted tool servers",
		`  svc upstream status --config svc.yaml
  svc upstream login crm --config svc.yaml
  svc upstream logout crm --config svc.yaml`,
		newUpstreamLoginCmd(env), newUpstreamStatusCmd(env), newUpstreamLogoutCmd(env))
}

// upstreamFile is the configuration that the commands use.
type upstreamFile struct {
	env    process.Env
	config string
}

func (u *upstreamFile) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&u.config, "config", config.DefaultPath, "configuration file")
}

// load reads the file.
func (u *upstreamFile) load(cmd *cobra.Command) (*config.File, error) {
	u.config, _ = command.ConfigPath(u.env, cmd.Flags(), config.DefaultPath)
	env := u.env
	env.LookupEnv = unitCredentials(env, u.config)
	file, found := loadGateway(env, gatewayOptions{config: u.config})
	if file == nil {
		if err := diag.WriteText(env.Stderr, found); err != nil {
			return nil, err
		}
		return nil, &command.ExitError{Err: command.ErrReported, Code: command.ExitUsage}
	}
	return file, nil
}

// loginsOf returns the upstreams with login credentials.
func loginsOf(file *config.File) (list []*upstream.Config) {
	for i := range file.Upstreams {
		if c := file.Upstreams[i].Credentials; c != nil && c.AuthorizationCode != nil {
			list = append(list, &file.Upstreams[i])
		}
	}
	return list
}

// find returns an upstream with a login by its name.
func find(file *config.File, name string) (*upstream.Config, error) {
	var names []string
	for _, c := range loginsOf(file) {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	if names == nil {
		return nil, command.Usagef("set credentials: {authorization_code: {}} in the upstream that you want to log in at", "no upstream of the file has a login")
	}
	return nil, command.Usagef("one of "+strings.Join(names, ", "), "no upstream with credentials.authorization_code is named %s", command.Clean(name))
}

func newUpstreamLoginCmd(env process.Env) *cobra.Command {
	file := upstreamFile{env: env}
	timeout := 10 * time.Minute
	var accepted []string
	cmd := &cobra.Command{
		Use:   "login NAME",
		Short: "Log in at a hosted tool server",
		Long: `Log in at the authorization server of an upstream that has
credentials.authorization_code. The address to open in a browser is printed; the
browser returns to this command on loopback. Every caller of the gateway reaches
the upstream with the account of the person who logs in.

The authorization server is discovered from the upstream, and the gateway registers
itself there unless client_id is set. Before the browser is needed, the command prints
the authorization server (issuer), the page that the browser opens, the token endpoint
and the scopes. If their hosts differ from each other or from the host of the upstream,
if the server proposes the scopes, or if the last login was at another server, it asks
for 'yes'. Without a terminal, give the host of the issuer that you expect with
--accept-issuer, with its port if it is not the default one; a login at any other issuer
is refused. Where the page or the token endpoint is at another host than the issuer, give
--accept-issuer once more for each further host, after that of the issuer. Scopes that the
server proposes are accepted with 'yes' only: without a terminal, write scopes into the
configuration.

The tokens are stored in state_dir with mode
0600; a running gateway uses them at once and renews them. Run this command on the
machine of the gateway, as the gateway's user or as root.

If the browser runs on another machine, either forward the printed port
(ssh -L PORT:127.0.0.1:PORT), or paste into this command the address to which the
browser was redirected and which it could not open.`,
		Example: `  svc upstream login crm --config svc.yaml
  svc upstream login crm --accept-issuer login.crm.example --config svc.yaml
  svc upstream login crm --accept-issuer login.crm.example --accept-issuer tokens.crm.example
  sudo -u svc-gateway svc upstream login crm --config /etc/svc/svc.yaml`,
		Args: command.WantArgs("a NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := file.load(cmd)
			if err != nil {
				return err
			}
			c, err := find(f, args[0])
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return runLogin(ctx, env, f, c, accepted)
		},
	}
	file.addFlag(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for the browser")
	cmd.Flags().StringArrayVar(&accepted, "accept-issuer", nil, "host of the authorization server to accept without a question; repeat it for other hosts of page and token endpoint")
	return cmd
}

// runLogin logs in, and saves the tokens.
func runLogin(ctx context.Context, env process.Env, f *config.File, c *upstream.Config, accepted []string) error {
	if err := needStateDir(env, f.StateDirectory()); err != nil {
		return err
	}
	var pasted io.Reader
	if env.StdinTTY {
		pasted = env.Stdin
	}
	file := credentials.FileOf(f.StateDirectory(), c.Name)
	o := credentials.LoginOptions{Upstream: c, Pasted: pasted, Now: env.Now}
	if last, err := file.Read(); err == nil {
		o.LastIssuer = last.Issuer
	}
	o.Accept = func(ctx context.Context, s *credentials.Servers) error {
		return acceptServers(ctx, env, c, s, accepted)
	}
	o.Show = func(address, redirect string) {
		fmt.Fprintf(env.Stderr, "Open this address in a browser and log in. It returns to %s\n\n", redirect)
		fmt.Fprintln(env.Stdout, address)
		fmt.Fprintln(env.Stderr)
		if pasted != nil {
			fmt.Fprintln(env.Stderr, "If the browser cannot open that page, paste its address here.")
		}
	}
	g, err := credentials.Run(ctx, o)
	if coded := (*command.ExitError)(nil); errors.As(err, &coded) { // of acceptServers
		return err
	}
	if err != nil {
		return command.Failed(fmt.Errorf("log in at %q: %w", c.Name, err), "")
	}
	unlock, err := file.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := file.Write(g); err != nil {
		return command.Failed(fmt.Errorf("save the login: %w", err), "run it as the user of the gateway, who may write to state_dir")
	}
	fmt.Fprintf(env.Stderr, "Logged in at %s for upstream %q.\n", command.Clean(g.Issuer), c.Name)
	if g.RefreshToken == "" {
		fmt.Fprintf(env.Stderr, "The authorization server issued no refresh token: log in again before %s.\n", g.Expires.Local().Format(time.DateTime))
	}
	return nil
}

// acceptServers shows the operator with which servers a login would happen, and returns an error
// unless they are accepted. accepted are the values of --accept-issuer: the host of the issuer, then
// further hosts. They say nothing about scopes, which the server could choose at will.
func acceptServers(ctx context.Context, env process.Env, c *upstream.Config, s *credentials.Servers, accepted []string) error {
	scopes := command.Clean(strings.Join(s.Scopes, " "))
	switch {
	case scopes == "":
		scopes = "none requested: the server chooses"
	case s.Proposed:
		scopes += " (proposed by the server)"
	}
	fmt.Fprintf(env.Stderr, "Login for upstream %q at %s\n  issuer          %s\n  page            %s\n  token endpoint  %s\n  scopes          %s\n\n",
		c.Name, command.Clean(upstream.LogURL(c.URL)), command.Clean(s.Issuer), command.Clean(upstream.LogURL(s.Page)), command.Clean(s.TokenEndpoint), scopes)
	missing, reasons := s.Hosts, s.Reasons
	switch {
	case len(accepted) > 0 && accepted[0] != s.Hosts[0]:
		return command.Failed(fmt.Errorf("the authorization server is at %s, and the first --accept-issuer accepts %s", command.Clean(s.Hosts[0]), command.Clean(accepted[0])), "")
	case len(accepted) > 0:
		missing, reasons = nil, nil
		for _, host := range s.Hosts {
			if !slices.Contains(accepted, host) {
				missing = append(missing, host)
				reasons = append(reasons, fmt.Sprintf("the page or the token endpoint is at %s, and no --accept-issuer accepts it", host))
			}
		}
	case len(reasons) == 0:
		missing = nil
	}
	if s.Proposed {
		reasons = append(slices.Clone(reasons), "the scopes are proposed by the server")
	}
	if len(reasons) == 0 {
		return nil
	}
	for _, why := range reasons {
		fmt.Fprintf(env.Stderr, "- %s\n", command.Clean(why))
	}
	if !env.StdinTTY {
		return notAccepted(s, missing)
	}
	fmt.Fprint(env.Stderr, "Continue only if you know these hosts and want to grant these scopes. Type yes to log in: ")
	answer := make(chan string, 1)
	go func() {
		var line string
		_, _ = fmt.Fscanln(env.Stdin, &line)
		answer <- line
	}()
	select {
	case line := <-answer:
		if line == "yes" {
			return nil
		}
	case <-ctx.Done():
	}
	return command.Failed(errors.New("the login was not accepted: nothing was changed"), "")
}

// notAccepted is the error of a login without a terminal. It names the hosts that were not accepted, and
// the scopes if a server proposed them, and what the operator may write to accept exactly those.
func notAccepted(s *credentials.Servers, hosts []string) error {
	var what, write []string
	if len(hosts) > 0 {
		what = append(what, "not accepted: the hosts "+command.Clean(strings.Join(hosts, ", ")))
		write = append(write, "add --accept-issuer "+command.Clean(strings.Join(hosts, " --accept-issuer ")))
	}
	if s.Proposed {
		scopes := fmt.Sprintf("%q", s.Scopes)
		what = append(what, "not accepted: the scopes "+command.Clean(strings.Join(s.Scopes, " "))+", which the server proposes")
		write = append(write, "set credentials.authorization_code.scopes in the configuration, such as "+strings.ReplaceAll(scopes, `" "`, `", "`))
	}
	return command.Usagef("only if you know and want them: "+strings.Join(write, ", and "),
		"the login needs a confirmation, and standard input is not a terminal; %s", strings.Join(what, "; "))
}

// needStateDir creates the directory if it is missing, unless it would belong to root,
// because the gateway could then not read it.
func needStateDir(env process.Env, dir string) error {
	if env.Exists(dir) {
		return nil
	}
	if env.Root() {
		return command.Failed(fmt.Errorf("state_dir %s is not there", dir), "start the gateway once, or make the folder and give it to the gateway's user")
	}
	if err := env.PrivateDir(filepath.Clean(dir)); err != nil {
		return command.Failed(err, "run it as the user of the gateway")
	}
	return nil
}

func newUpstreamLogoutCmd(env process.Env) *cobra.Command {
	file := upstreamFile{env: env}
	cmd := &cobra.Command{
		Use:   "logout NAME",
		Short: "End a login at a hosted tool server",
		Long: `Revoke the tokens at the authorization server, if it has a revocation endpoint, and
remove them from state_dir. A running gateway keeps its access token in memory until
the token expires; restart the gateway to remove it at once.`,
		Example: `  svc upstream logout crm --config svc.yaml`,
		Args:    command.WantArgs("a NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := file.load(cmd)
			if err != nil {
				return err
			}
			c, err := find(f, args[0])
			if err != nil {
				return err
			}
			return runLogout(cmd.Context(), env, f, c)
		},
	}
	file.addFlag(cmd)
	return cmd
}

func runLogout(ctx context.Context, env process.Env, f *config.File, c *upstream.Config) error {
	file := credentials.FileOf(f.StateDirectory(), c.Name)
	if _, err := file.Read(); errors.Is(err, credentials.ErrNone) {
		return command.Failed(fmt.Errorf("upstream %q: %w", c.Name, err), "")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*credentials.Timeout)
	defer cancel()
	unlock, err := file.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if g, err := file.Read(); err == nil && g.RevocationEndpoint != "" && g.RefreshToken != "" {
		e := credentials.EndpointOf(c, g, credentials.NewClient(), env.Now)
		if err := e.Revoke(ctx, g.RevocationEndpoint, g.RefreshToken); err != nil {
			fmt.Fprintf(env.Stderr, "the tokens are removed here, but were not revoked: %s\n", command.Clean(err.Error()))
		}
	}
	if err := file.Remove(); err != nil {
		return command.Failed(err, "run it as the user of the gateway")
	}
	fmt.Fprintf(env.Stderr, "Logged out of upstream %q.\n", c.Name)
	return nil
}
