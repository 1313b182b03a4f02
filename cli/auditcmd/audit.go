package auditcmd

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/audit"
)

func NewAuditCmd(env process.Env) *cobra.Command {
	return command.NewGroupCmd("audit", "Verify, follow and summarize the audit files of gateways",
		`  svc audit verify /var/log/svc/audit.jsonl --public-key checkpoint.pub
  svc audit tail -f /var/log/svc/audit.jsonl
  svc audit stats /var/log/svc/audit.jsonl --since 24h --by tool`,
		newAuditVerifyCmd(env), newAuditTailCmd(env), newAuditStatsCmd(env), newAuditHeadsCmd(env), newAuditEventsCmd(env))
}

// wantFiles requires at least one FILE.
func wantFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%q needs a FILE", cmd.CommandPath())
	}
	return nil
}

// Files returns the files for the arguments: a single file stands for an
// audit log with all its rotated files; several are read as they are.
func Files(args []string) ([]audit.Rotated, error) {
	if len(args) == 1 {
		return audit.Files(args[0])
	}
	return audit.InOrder(args)
}

// Scan passes the lines of audit files to visit as [audit.Scan] does, and shows the progress.
func Scan(ctx context.Context, env process.Env, files []audit.Rotated, visit func(line []byte) error) (audit.Scanned, error) {
	p := command.NewProgress(env, paths(files))
	defer p.End()
	read, lines := int64(0), 0
	return audit.Scan(ctx, files, func(line []byte) error {
		read += int64(len(line)) + 1
		if lines++; lines%4096 == 0 {
			p.Reached(read)
		}
		return visit(line)
	})
}

func paths(files []audit.Rotated) []string {
	list := make([]string, len(files))
	for i := range files {
		list[i] = files[i].Path
	}
	return list
}

func newAuditVerifyCmd(env process.Env) *cobra.Command {
	var publicKeys []string
	var heads []string
	f := command.FormatText
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Check the hash chain and the checkpoints of audit files",
		Long: `Read audit files from beginning to end and check that no line was changed,
removed, added or moved. One FILE means the current file of a gateway and its
rotated files; several FILEs are one audit log, in the order of their first lines.

Without --public-key and --head nothing is proven, and the result is "unverified":
a person who can write the files can also write another chain.

With --public-key the signatures of the checkpoints are checked. A signature covers
all lines before its checkpoint, the number of the checkpoint, and the checkpoint
before it. The audit log must begin with line 1, or with the signed checkpoint that
begins a file after a rotation. The last checkpoint states which line is the oldest
that rotation has kept, and the FILEs must begin there, unless they end with a file
that was rotated: such FILEs are a part of a log, whose other files may be elsewhere.
Each line must have a hash, and no checkpoint may be missing. Two lines without a
checkpoint between them may be at most two checkpoint intervals apart. "proven" has
the lines that a signature covers; "unproven" has the others, such as the lines after
the last checkpoint; "unsigned" those of them that --head proves.

With --head the audit log must contain a line that is known from elsewhere, so that
a truncated or rewritten file is detected. Sources of a head are the last line that
this command printed, the hash of a line that a sink received, and 'svc audit
heads'. All lines before the head are proven too. If there are several heads, all of
them must be present, except older ones in files that rotation deleted.

The exit code is 1 when the audit log is wrong, and 2 when it cannot be read.`,
		Example: `  svc audit verify /var/log/svc/audit.jsonl
  svc audit verify /var/log/svc/audit.jsonl --public-key checkpoint.pub
  svc audit verify audit.jsonl --head 1204:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`,
		Args: wantFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			var o audit.VerifyOptions
			for i, name := range publicKeys {
				key, err := audit.LoadPublicKey(name)
				if err != nil {
					return command.Usage(err, "name the public half of audit.checkpoint_key_file: openssl pkey -in checkpoint.key -pubout")
				}
				if i == 0 {
					o.PublicKey = key
				} else {
					o.FormerKeys = append(o.FormerKeys, key)
				}
			}
			for _, text := range heads {
				h, err := parseHead(text)
				if err != nil {
					return command.Usage(err, "--head takes NUMBER:HASH, as this command prints it")
				}
				o.Heads = append(o.Heads, h)
			}
			files, err := Files(args)
			if err != nil {
				return command.Usage(err, "")
			}
			p := command.NewProgress(env, paths(files))
			o.Progress = p.Reached
			v, err := audit.Verify(cmd.Context(), files, o)
			p.End()
			if err != nil {
				return command.Usage(err, "")
			}
			if v.Lines == 0 && v.Bytes > 0 {
				return command.Usagef("name the file of audit.path, or a rotated file of it", "%s: not one line is an audit line", strings.Join(args, ", "))
			}
			if err := writeVerification(env, f, v, o.PublicKey != nil); err != nil {
				return err
			}
			if !v.OK() {
				return command.ErrReported
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&publicKeys, "public-key", nil, "Ed25519 key (PEM) that verifies the signatures of checkpoints; may be repeated, and any of the keys may match")
	cmd.Flags().StringArrayVar(&heads, "head", nil, "a line that the audit log must have, as NUMBER:HASH; may be repeated")
	command.AddFormatFlag(cmd, &f, command.FormatText, command.FormatJSON, command.FormatYAML)
	return cmd
}

// parseHead parses NUMBER:HASH.
func parseHead(s string) (audit.Head, error) {
	number, hash, ok := strings.Cut(s, ":")
	seq, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || seq == 0 {
		return audit.Head{}, fmt.Errorf("%q does not begin with the number of a line and a colon", s)
	}
	sum, err := audit.ParseHash(hash)
	if err != nil {
		return audit.Head{}, fmt.Errorf("%q: %w", s, err)
	}
	return audit.Head{Seq: seq, Hash: sum}, nil
}
