package cli

import "github.com/spf13/cobra"

func newPolicyCmd(env Env) *cobra.Command {
	return newGroupCmd("policy", "Check, test and try out the rules of a gateway",
		`  svc policy report /var/log/svc/audit.jsonl`, newPolicyReportCmd(env))
}
