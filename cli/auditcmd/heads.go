package auditcmd

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/gateway/audit"
	"svc/server/client"
	"svc/store/api"
)

// newAuditHeadsCmd returns the commands of 'svc audit' that call the control
// plane.
func newAuditHeadsCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	cmd := rest.NewListAllCmd(r, &cobra.Command{
		Use:   "heads",
		Short: "List the chain head that each gateway last reported to the control plane",
		Long: `List the chain head of each gateway: the last line of its audit log, as the
gateway reported it at its start, every minute, and at its stop. Give HEAD to 'svc
audit verify --head': a file without that line was truncated, changed or replaced.

KEY is the checkpoint key that signed the head. A gateway's name is bound to the
first key, and reports signed by another key are refused. "(+1 refused)" counts
such keys, and 'svc audit heads accept' binds the name to one of them. Heads
without a key are not signed: any holder of an ingest key can report them.

SUPERSEDED counts older heads that later heads continue; the older they are, the
fewer are kept. The file must have these lines too; a rewritten chain does not.
CONTRADICTED counts heads that a later report does not continue, which is expected
after an operator moved an audit file away. If there are too many of them, the
oldest and the highest are kept. The JSON output has all heads, and in oldestLine the
number of the oldest line of the log: rotation removed those before it.`,
		Example: `  svc audit heads
  svc audit verify audit.jsonl --public-key checkpoint.pub $(svc audit heads -o json |
    jq -r '.data[0] | [.] + .passed | .[] | "--head=\(.seq):\(.hash)"')
  svc audit heads accept gateway-1 --public-key checkpoint.pub`,
	}, rest.Columns[api.AuditHead]{
		Header: []string{"GATEWAY", "LOG", "KEY", "REPORTED", "SUPERSEDED", "CONTRADICTED", "HEAD"},
		Row: func(h api.AuditHead) []string {
			return []string{h.Gateway, h.Trail, auditKeyText(h), command.Stamp(h.ReportedAt), command.Count(int64(len(h.Passed))), command.Count(int64(len(h.Earlier))), fmt.Sprintf("%d:%s", h.Seq, h.Hash)}
		},
	}, func(ctx context.Context, c *client.Client) (api.List[api.AuditHead], error) {
		return c.ListAuditHeads(ctx)
	})
	r.AddFlags(cmd)
	cmd.AddCommand(newAuditAcceptCmd(r))
	return cmd
}

// auditKeyText shows the signing key of a head in one cell.
func auditKeyText(h api.AuditHead) string {
	switch n := len(h.OfferedKeys); {
	case !h.Signed:
		return "not signed"
	case n > 0:
		return fmt.Sprintf("%s (+%d refused)", h.KeyID, n)
	}
	return h.KeyID
}

func newAuditAcceptCmd(r *rest.Connection) *cobra.Command {
	var file, id string
	cmd := rest.NewValueCmd(r, &cobra.Command{
		Use:   "accept NAME",
		Short: "Bind the name of a gateway to another checkpoint key",
		Long: `Bind the name of a gateway to another checkpoint key, after
audit.checkpoint_key_file was changed. Until then the heads that the gateway
reports are refused, because any holder of an ingest key could report them.

--public-key is the public half of the new key. --key is the id of a key whose
reports were refused, as in audit lines and in 'svc audit heads -o json'; first
compare it with the "key" of a checkpoint in the gateway's audit file. Without
either flag the refused key is accepted if there is only one.`,
		Example: `  svc audit heads accept gateway-1 --public-key checkpoint.pub
  svc audit heads accept gateway-1 --key 97475c80245c85cc`,
		Args: command.WantArgs("the NAME of a gateway"),
	}, func(ctx context.Context, c *client.Client, args []string) (api.AuditKey, error) {
		public, err := acceptedKey(ctx, c, args[0], file, id)
		if err != nil {
			return api.AuditKey{}, err
		}
		return c.AcceptAuditKey(ctx, api.AuditKeyAccept{Gateway: args[0], PublicKey: public})
	})
	cmd.Flags().StringVar(&file, "public-key", "", "the new Ed25519 key (PEM)")
	cmd.Flags().StringVar(&id, "key", "", "id of a key whose reports were refused")
	cmd.MarkFlagsMutuallyExclusive("public-key", "key")
	return cmd
}

// acceptedKey returns the key that flags give, or the only rejected one.
func acceptedKey(ctx context.Context, c *client.Client, gateway, file, id string) (string, error) {
	if file != "" {
		key, err := audit.LoadPublicKey(file)
		if err != nil {
			return "", command.Usage(err, "name the public half of audit.checkpoint_key_file: openssl pkey -in checkpoint.key -pubout")
		}
		return encodedKey(key), nil
	}
	heads, err := c.ListAuditHeads(ctx)
	if err != nil {
		return "", err
	}
	var offered []api.OfferedAuditKey
	for _, h := range heads.Data {
		if h.Gateway == gateway && h.Signed {
			offered = h.OfferedKeys
		}
	}
	for _, o := range offered {
		if o.KeyID == id || id == "" && len(offered) == 1 {
			return o.PublicKey, nil
		}
	}
	switch {
	case len(offered) == 0:
		return "", command.Usagef("name the new key with --public-key", "no report of another key was refused for the gateway %q", gateway)
	case id != "":
		return "", command.Usagef("svc audit heads -o json lists them", "no report of the key %q was refused for the gateway %q", id, gateway)
	}
	return "", command.Usagef("name one with --key, or --public-key", "%d keys were refused for the gateway %q", len(offered), gateway)
}

func encodedKey(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }
