package gatewaycmd

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/auth"
)

func NewLicenseCmd(env process.Env) *cobra.Command {
	return command.NewGroupCmd("license", "Create license keys, sign and inspect licenses",
		`  svc license init
  svc license inspect license/license.jwt --public-key license/license.pub
  svc license issue --key license/license.key --subject "Acme Ltd" --days 365 --out license/license.jwt`,
		newLicenseInitCmd(env), newLicenseKeygenCmd(env), newLicenseIssueCmd(env), newLicenseInspectCmd(env))
}

func newLicenseKeygenCmd(env process.Env) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Create a key pair that signs and verifies licenses",
		Long: `Write an Ed25519 key pair to a directory: license.key (mode 0600) signs
licenses, license.pub verifies them and goes to the gateways. Existing keys are
never replaced.`,
		Example: `  svc license keygen --out keys`,
		Args:    command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			key, public, err := auth.GenerateKey(out)
			if err != nil {
				return licenseFailure(err)
			}
			fmt.Fprintf(env.Stderr, "%s signs licenses: keep it secret\n%s verifies them: license.public_key_file of the gateway\n", key, public)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", ".", "directory to write into")
	return cmd
}

func newLicenseIssueCmd(env process.Env) *cobra.Command {
	r := auth.Request{Days: 365, GraceDays: 14}
	f := command.FormatText
	cmd := &cobra.Command{
		Use:     "issue",
		Short:   "Sign a license",
		Long:    "Sign a license and write it with mode 0600, which gateways require.",
		Example: `  svc license issue --key keys/license.key --subject "Acme Ltd" --days 365 --grace-days 14 --out license.jwt`,
		Args:    command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			r.Now = env.Now()
			l, err := auth.Issue(r)
			if err != nil {
				return licenseFailure(err)
			}
			if f != command.FormatText {
				return command.WriteValue(env.Stdout, f, l)
			}
			fmt.Fprintf(env.Stderr, "license for %s until %s written to %s\n", command.Clean(l.Subject), l.ExpiresAt.Format(time.RFC3339), r.Out)
			return nil
		},
	}
	addRequestFlags(cmd, &r)
	flags := cmd.Flags()
	flags.StringVar(&r.KeyFile, "key", "", "signing key that 'svc license keygen' created")
	flags.StringVar(&r.Out, "out", auth.FileName, "file to write")
	command.AddFormatFlag(cmd, &f, command.FormatText, command.FormatJSON, command.FormatYAML)
	command.RequireFlags(cmd, "key", "subject")
	return cmd
}

func newLicenseInspectCmd(env process.Env) *cobra.Command {
	var publicKey string
	f := command.FormatText
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show the contents of a license and whether a gateway accepts it",
		Long: `Show the claims of a license, its state today, and what is wrong with it.
With --public-key the signature is checked, and a license that a gateway would
refuse ends in exit code 1.`,
		Example: `  svc license inspect license.jwt --public-key keys/license.pub`,
		Args:    command.WantArgs("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			var key ed25519.PublicKey
			if publicKey != "" {
				var err error
				if key, err = auth.ReadPublicKey(publicKey); err != nil {
					return command.Usage(err, "name the license.pub of the key that signed it")
				}
			}
			in, err := auth.Inspect(args[0], key, env.Now())
			if err != nil {
				return command.Usage(err, "")
			}
			if err := writeInspection(env, f, in); err != nil {
				return err
			}
			if key != nil && len(in.Problems) > 0 {
				return command.ErrReported
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&publicKey, "public-key", "", "verify the signature with this key")
	command.AddFormatFlag(cmd, &f, command.FormatText, command.FormatJSON, command.FormatYAML)
	return cmd
}

func writeInspection(env process.Env, f command.Format, in *auth.Inspection) error {
	if f != command.FormatText {
		return command.WriteValue(env.Stdout, f, in)
	}
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-11s %s\n", name, command.Clean(value)) }
	line("subject", in.Subject)
	line("issuer", in.Issuer)
	line("issued", in.IssuedAt.Format(time.RFC3339))
	line("expires", in.ExpiresAt.Format(time.RFC3339))
	line("grace ends", fmt.Sprintf("%s (%d days)", in.GraceEnds.Format(time.RFC3339), in.GraceDays))
	switch {
	case len(in.Problems) > 0:
		line("state", "refused by gateways")
	case in.Verified:
		line("state", in.State.String())
	default:
		line("state", in.State.String()+", if the signature is right")
	}
	signature := "not checked: --public-key names the key"
	switch {
	case in.Verified:
		signature = "good"
	case len(in.Problems) > 0:
		signature = "not verified"
	}
	line("signature", signature)
	for _, p := range in.Problems {
		line("problem", p)
	}
	_, err := env.Stdout.Write([]byte(b.String()))
	return err
}

// licenseFailure adds a hint about what to do.
func licenseFailure(err error) error {
	if errors.Is(err, auth.ErrExists) {
		return command.Failed(err, "name another directory; keys that licenses were signed with must not be lost")
	}
	return err
}

// addRequestFlags adds the flags for the contents of a license.
func addRequestFlags(cmd *cobra.Command, r *auth.Request) {
	flags := cmd.Flags()
	flags.StringVar(&r.Subject, "subject", r.Subject, "holder of the license")
	flags.StringVar(&r.Issuer, "issuer", auth.Issuer, "issuer of the license")
	flags.IntVar(&r.Days, "days", r.Days, "validity of the license in days")
	flags.IntVar(&r.GraceDays, "grace-days", r.GraceDays, "grace period after the validity, in days")
}
