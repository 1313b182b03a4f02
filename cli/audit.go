package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"svc/gateway/audit"
)

func newAuditCmd(env Env) *cobra.Command {
	return newGroupCmd("audit", "Verify, follow and sum up audit files of gateways",
		`  svc audit verify /var/log/svc/audit.jsonl --public-key checkpoint.pub
  svc audit tail -f /var/log/svc/audit.jsonl
  svc audit stats /var/log/svc/audit.jsonl --since 24h --by tool`,
		newAuditVerifyCmd(env), newAuditTailCmd(env), newAuditStatsCmd(env), newAuditHeadsCmd(env))
}

// wantFiles asks for at least one FILE.
func wantFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%q needs a FILE", cmd.CommandPath())
	}
	return nil
}

// auditFiles returns the files that arguments mean: one is a trail with all
// its rotated files, several are read as they are named.
func auditFiles(args []string) ([]audit.Rotated, error) {
	if len(args) == 1 {
		return audit.Files(args[0])
	}
	return audit.InOrder(args)
}

func newAuditVerifyCmd(env Env) *cobra.Command {
	var publicKey string
	var heads []string
	f := formatText
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Check the hash chain and the checkpoints of audit files",
		Long: `Read audit files from beginning to end and check that no line was changed,
removed, added or moved. One FILE means the current file of a gateway and all
that were rotated beside it; several are taken as one trail, in the order of
their first lines.

With --public-key the signatures of the checkpoints are checked as well: whoever
rewrote the whole chain did not have the key. With --head the trail must hold a
line that is known from elsewhere, so that a file whose end was cut off is
noticed: the last line that this command printed, the hash of a line that a sink
received, or what 'svc audit heads' shows of a gateway. Several heads are all
asked for; of those, older ones may have gone with files that rotation deleted.

The exit code is 1 when something is wrong with the trail, and 2 when it could
not be read.`,
		Example: `  svc audit verify /var/log/svc/audit.jsonl
  svc audit verify /var/log/svc/audit.jsonl --public-key checkpoint.pub
  svc audit verify audit.jsonl --head 1204:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`,
		Args: wantFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			var o audit.VerifyOptions
			if publicKey != "" {
				key, err := audit.LoadPublicKey(publicKey)
				if err != nil {
					return usage(err, "name the public half of audit.checkpoint_key_file: openssl pkey -in checkpoint.key -pubout")
				}
				o.PublicKey = key
			}
			for _, text := range heads {
				h, err := parseHead(text)
				if err != nil {
					return usage(err, "--head takes NUMBER:HASH, as this command prints it")
				}
				o.Heads = append(o.Heads, h)
			}
			files, err := auditFiles(args)
			if err != nil {
				return usage(err, "")
			}
			v, err := audit.Verify(cmd.Context(), files, o)
			if err != nil {
				return usage(err, "")
			}
			if err := writeVerification(env, f, v); err != nil {
				return err
			}
			if !v.OK() {
				return errReported
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&publicKey, "public-key", "", "check the signatures of checkpoints with this Ed25519 key (PEM)")
	cmd.Flags().StringArrayVar(&heads, "head", nil, "a line that the trail must hold, as NUMBER:HASH; may be repeated")
	addFormatFlag(cmd, &f, formatText, formatJSON, formatYAML)
	return cmd
}

// parseHead reads NUMBER:HASH.
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

// verified is the output of 'svc audit verify -o json'.
type verified struct {
	OK          bool              `json:"ok"`
	Files       int               `json:"files"`
	Lines       uint64            `json:"lines"`
	Bytes       int64             `json:"bytes"`
	First       uint64            `json:"first"`
	Head        string            `json:"head"`
	Checkpoints uint64            `json:"checkpoints"`
	Signed      uint64            `json:"signed"`
	LastSigned  uint64            `json:"lastSigned"`
	Starts      uint64            `json:"starts"`
	Lost        uint64            `json:"lost"`
	TornBytes   int64             `json:"tornBytes"`
	Unchained   uint64            `json:"unchained"`
	Found       int               `json:"found"`
	Problems    []verifiedProblem `json:"problems"`
}

type verifiedProblem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Seq     uint64 `json:"seq,omitempty"`
	Message string `json:"message"`
}

func writeVerification(env Env, f format, v *audit.Verification) error {
	head := ""
	if v.Head.Seq > 0 {
		head = fmt.Sprintf("%d:%s", v.Head.Seq, v.Head.Hash)
	}
	if f != formatText {
		out := verified{
			OK: v.OK(), Files: v.Files, Lines: v.Lines, Bytes: v.Bytes, First: v.First, Head: head,
			Checkpoints: v.Checkpoints, Signed: v.Signed, LastSigned: v.LastSigned, Starts: v.Starts,
			Lost: v.Lost, TornBytes: v.Torn, Unchained: v.Unchained, Found: v.Found, Problems: []verifiedProblem{},
		}
		for _, p := range v.Problems {
			out.Problems = append(out.Problems, verifiedProblem{p.File, p.Line, p.Seq, p.Message})
		}
		return writeValue(env.Stdout, f, out)
	}
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, clean(fmt.Sprintf(format, args...)))
	}
	line("files", "%d", v.Files)
	line("lines", "%d, from %d to %d", v.Lines, v.First, v.Head.Seq)
	line("bytes", "%d", v.Bytes)
	line("checkpoints", "%d, %d with a good signature", v.Checkpoints, v.Signed)
	if v.Signed > 0 {
		line("proven", "up to line %d, the last signed checkpoint", v.LastSigned)
	}
	line("starts", "%d", v.Starts)
	if v.First > 1 {
		line("note", "older files are gone: the trail begins at line %d", v.First)
	}
	if v.Lost > 0 {
		line("note", "%d lines could not be written when they were due, and say so", v.Lost)
	}
	if v.Torn > 0 {
		line("note", "%d bytes of unfinished lines were moved aside after crashes", v.Torn)
	}
	if v.Unchained > 0 {
		line("note", "%d lines carry no hash: nothing proves them", v.Unchained)
	}
	line("head", "%s", head)
	for _, p := range v.Problems {
		line("problem", "%s", p)
	}
	if more := v.Found - len(v.Problems); more > 0 {
		line("problem", "and %d more", more)
	}
	result := "ok"
	if !v.OK() {
		result = "WRONG"
	}
	line("result", "%s", result)
	_, err := env.Stdout.Write([]byte(b.String()))
	return err
}
