package gatewaycmd

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/auth"
)

func newLicenseInitCmd(env process.Env) *cobra.Command {
	dir := "license"
	r := auth.Request{Subject: "self-issued", Days: 365, GraceDays: 14}
	f := command.FormatText
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create a key pair and a license for your own gateways",
		Long: `Write a key pair and a license that is signed with it to a directory, and
print the lines for the gateway's config.

A gateway starts only with a license file. The license limits how long a gateway
is in service without renewal: when the license and its grace period have ended,
the gateway still serves requests but is no longer ready. If you run your own
gateways, you issue the license yourself; nothing is sent anywhere.

  license.jwt  the license (mode 0600); the gateway's user must own it
  license.pub  verifies the license; the gateway reads it
  license.key  signs licenses (mode 0600); keep it secret, gateways do not need it

Existing files are never replaced. To renew a license before it ends, sign
another one with the same key ('svc license issue').`,
		Example: `  svc license init
  svc license init --dir /etc/svc/license --subject "Acme Ltd" --days 365 --grace-days 14`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			r.Now = env.Now()
			return runLicenseInit(env, dir, r, f)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", dir, "directory to write into")
	addRequestFlags(cmd, &r)
	command.AddFormatFlag(cmd, &f, command.FormatText, command.FormatJSON, command.FormatYAML)
	return cmd
}

func runLicenseInit(env process.Env, dir string, r auth.Request, f command.Format) error {
	dir, err := filepath.Abs(dir) // the gateway's configuration accepts absolute paths only
	if err != nil {
		return fmt.Errorf("find the directory: %w", err)
	}
	l, files, err := auth.Init(dir, r)
	if errors.Is(err, auth.ErrExists) {
		return command.Failed(err, "name another --dir, or renew the license with its key: svc license issue --key "+
			filepath.Join(dir, auth.KeyFileName)+" --subject NAME --out "+filepath.Join(dir, auth.FileName))
	}
	if err != nil {
		return err
	}
	if f != command.FormatText {
		return command.WriteValue(env.Stdout, f, struct {
			auth.Files
			*auth.License
		}{files, l})
	}
	fmt.Fprintf(env.Stderr, "license for %s written, valid until %s with %d days of grace; put these lines into the gateway's config:\n",
		command.Clean(l.Subject), l.ExpiresAt.Format(time.RFC3339), l.GraceDays)
	var config struct {
		License struct {
			Path          string `json:"path"`
			PublicKeyFile string `json:"public_key_file"`
		} `json:"license"`
	}
	config.License.Path, config.License.PublicKeyFile = files.License, files.PublicKey
	if err := command.WriteValue(env.Stdout, command.FormatYAML, config); err != nil {
		return err
	}
	fmt.Fprintf(env.Stderr, "keep %s secret: it signs licenses, and no gateway needs it\n", files.Key)
	return nil
}
