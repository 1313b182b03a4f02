package gatewaycmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/config"
	"svc/gateway/upstream"
	"svc/gateway/upstream/credentials"
)

// loginStatus is one row of 'svc upstream status'.
type loginStatus struct {
	Name     string `json:"name"`
	LoggedIn bool   `json:"logged_in"`
	// Cause is the reason why there is no login; empty when there is one.
	Cause        string    `json:"cause"`
	Issuer       string    `json:"issuer"`
	Since        time.Time `json:"since,omitzero"`
	TokenExpires time.Time `json:"token_expires,omitzero"`
	Renewable    bool      `json:"renewable"`
	Scopes       []string  `json:"scopes"`
}

func newUpstreamStatusCmd(env process.Env) *cobra.Command {
	file := upstreamFile{env: env}
	format := command.FormatText
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List the logins at hosted tool servers",
		Long: `List the upstreams with credentials.authorization_code, and whether each has a login.
No token is printed and no request is sent; 'svc gateway --check --probe' contacts the
upstreams. The exit code is 1 when a login is missing.`,
		Example: `  svc upstream status --config svc.yaml
  svc upstream status --config svc.yaml -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := file.load(cmd)
			if err != nil {
				return err
			}
			return writeLogins(env, format, f)
		},
	}
	file.addFlag(cmd)
	command.AddFormatFlag(cmd, &format, command.FormatText, command.FormatJSON)
	return cmd
}

func writeLogins(env process.Env, format command.Format, f *config.File) error {
	list := []loginStatus{}
	missing := false
	for _, c := range loginsOf(f) {
		s := statusOf(f, c, env.Now())
		missing = missing || !s.LoggedIn
		list = append(list, s)
	}
	err := error(nil)
	if format == command.FormatJSON {
		err = command.WriteValue(env.Stdout, format, list)
	} else {
		err = writeLoginTable(env, list)
	}
	if err == nil && missing {
		return command.ErrReported
	}
	return err
}

func writeLoginTable(env process.Env, list []loginStatus) error {
	if len(list) == 0 {
		fmt.Fprintln(env.Stderr, "no upstream of the file has credentials.authorization_code")
		return nil
	}
	var rows [][]string
	for _, s := range list {
		row := []string{s.Name, "logged in", command.Dash(s.Issuer), "-", "-", command.Dash(strings.Join(s.Scopes, " "))}
		if !s.LoggedIn {
			row[1] = s.Cause
		} else if row[3], row[4] = s.Since.Local().Format(time.DateTime), "renewed"; !s.Renewable {
			row[4] = s.TokenExpires.Local().Format(time.DateTime)
		}
		rows = append(rows, row)
	}
	return command.ShowTable(env, []string{"NAME", "STATUS", "AUTHORIZATION SERVER", "SINCE", "ENDS", "SCOPES"}, rows)
}

// statusOf reads the login at one upstream.
func statusOf(f *config.File, c *upstream.Config, now time.Time) loginStatus {
	s := loginStatus{Name: c.Name, Scopes: []string{}}
	g, err := credentials.FileOf(f.StateDirectory(), c.Name).Read()
	if err != nil {
		s.Cause = err.Error()
		return s
	}
	s.Issuer, s.Since, s.TokenExpires, s.Renewable = g.Issuer, g.LoggedIn, g.Expires, g.RefreshToken != ""
	s.Scopes = append(s.Scopes, g.Scopes...)
	superseded := credentials.Superseded(c, g)
	switch {
	case superseded != "":
		s.Cause = superseded
	case g.Ended:
		s.Cause = "ended by the authorization server"
	case !s.Renewable && !now.Before(g.Expires):
		s.Cause = "ended"
	default:
		s.LoggedIn = true
	}
	return s
}
