package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"svc/server/api"
	"svc/server/client"
)

// newAuditHeadsCmd is the one command of 'svc audit' that asks the control
// plane.
func newAuditHeadsCmd(env Env) *cobra.Command {
	r := &remote{env: env}
	cmd := newListAllCmd(r, &cobra.Command{
		Use:   "heads",
		Short: "List where the audit chain of each gateway stands, as it told the control plane",
		Long: `List the last line of the audit chain of each gateway, as it told the control
plane: at its start, each minute, and when it stopped. HEAD is what 'svc audit
verify --head' takes; a file that does not hold that line was cut off, changed
or replaced.

PASSED counts older heads that later ones went on from, thinned with age: the
file must hold them too, which a chain that was written anew does not. EARLIER
counts heads that a later report did not go on from: no alarm where an operator
moved an audit file away. Both are in the JSON output.`,
		Example: `  svc audit heads
  svc audit verify audit.jsonl $(svc audit heads -o json |
    jq -r '.data[0] | [.] + .passed | .[] | "--head=\(.seq):\(.hash)"')`,
	}, columns[api.AuditHead]{
		[]string{"GATEWAY", "TRAIL", "REPORTED", "PASSED", "EARLIER", "HEAD"},
		func(h api.AuditHead) []string {
			return []string{h.Gateway, h.Trail, stamp(h.ReportedAt), count(int64(len(h.Passed))), count(int64(len(h.Earlier))), fmt.Sprintf("%d:%s", h.Seq, h.Hash)}
		},
	}, func(ctx context.Context, c *client.Client) (api.List[api.AuditHead], error) {
		return c.ListAuditHeads(ctx)
	})
	r.addFlags(cmd)
	return cmd
}
