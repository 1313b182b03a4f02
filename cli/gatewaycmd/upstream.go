package gatewaycmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/output"
	"svc/cli/process"
	"svc/gateway/config"
	"svc/gateway/credentials/endpoint"
	"svc/gateway/credentials/grant"
	"svc/gateway/credentials/login"
	"svc/gateway/diag"
	"svc/gateway/upstream"
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
	return nil, command.Usagef("one of "+strings.Join(names, ", "), "no upstream with credentials.authorization_code is named %s", output.Clean(name))
}

func newUpstreamLoginCmd(env process.Env) *cobra.Command {
	file := upstreamFile{env: env}
	timeout := 10 * time.Minute
	cmd := &cobra.Command{
		Use:   "login NAME",
		Short: "Log in at a hosted tool server",
		Long: `Log in at the authorization server of an upstream that has
credentials.authorization_code. The address to open in a browser is printed; the
browser returns to this command on loopback. Every caller of the gateway reaches
the upstream with the account of the person who logs in.

The authorization server is discovered from the upstream, and the gateway registers
itself there unless client_id is set. The tokens are stored in state_dir with mode
0600; a running gateway uses them at once and renews them. Run this command on the
machine of the gateway, as the gateway's user or as root.

If the browser runs on another machine, either forward the printed port
(ssh -L PORT:127.0.0.1:PORT), or paste into this command the address to which the
browser was redirected and which it could not open.`,
		Example: `  svc upstream login crm --config svc.yaml
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
			return runLogin(ctx, env, f, c)
		},
	}
	file.addFlag(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for the browser")
	return cmd
}

// runLogin logs in, and saves the tokens.
func runLogin(ctx context.Context, env process.Env, f *config.File, c *upstream.Config) error {
	if err := needStateDir(env, f.StateDirectory()); err != nil {
		return err
	}
	var pasted io.Reader
	if env.StdinTTY {
		pasted = env.Stdin
	}
	g, err := login.Run(ctx, login.Options{Upstream: c, Pasted: pasted, Now: env.Now, Show: func(address, redirect string) {
		fmt.Fprintf(env.Stderr, "Open this address in a browser and log in. It returns to %s\n\n", redirect)
		fmt.Fprintln(env.Stdout, address)
		fmt.Fprintln(env.Stderr)
		if pasted != nil {
			fmt.Fprintln(env.Stderr, "If the browser cannot open that page, paste its address here.")
		}
	}})
	if err != nil {
		return command.Failed(fmt.Errorf("log in at %q: %w", c.Name, err), "")
	}
	file := grant.FileOf(f.StateDirectory(), c.Name)
	unlock, err := file.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := file.Write(g); err != nil {
		return command.Failed(fmt.Errorf("save the login: %w", err), "run it as the user of the gateway, who may write to state_dir")
	}
	fmt.Fprintf(env.Stderr, "Logged in at %s for upstream %q.\n", output.Clean(g.Issuer), c.Name)
	if g.RefreshToken == "" {
		fmt.Fprintf(env.Stderr, "The authorization server issued no refresh token: log in again before %s.\n", g.Expires.Local().Format(time.DateTime))
	}
	return nil
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
	file := grant.FileOf(f.StateDirectory(), c.Name)
	if _, err := file.Read(); errors.Is(err, grant.ErrNone) {
		return command.Failed(fmt.Errorf("upstream %q: %w", c.Name, err), "")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*endpoint.Timeout)
	defer cancel()
	unlock, err := file.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if g, err := file.Read(); err == nil && g.RevocationEndpoint != "" && g.RefreshToken != "" {
		e := endpoint.Endpoint{ID: g.ClientID, Secret: cmp.Or(g.ClientSecret, c.Credentials.AuthorizationCode.ClientSecret), Method: g.AuthMethod, Client: endpoint.NewClient(), Now: env.Now}
		if err := e.Revoke(ctx, g.RevocationEndpoint, g.RefreshToken); err != nil {
			fmt.Fprintf(env.Stderr, "the tokens are removed here, but were not revoked: %s\n", output.Clean(err.Error()))
		}
	}
	if err := file.Remove(); err != nil {
		return command.Failed(err, "run it as the user of the gateway")
	}
	fmt.Fprintf(env.Stderr, "Logged out of upstream %q.\n", c.Name)
	return nil
}
