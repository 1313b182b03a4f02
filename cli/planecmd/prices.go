package planecmd

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/server/pricing"
)

func newPricesCmd(env process.Env) *cobra.Command {
	return command.NewGroupCmd("prices", "Show or import the price table for traces without a cost",
		`  svc costs prices list
  svc costs prices import model_prices_and_context_window.json >prices.json
  svc serve --prices prices.json`,
		newPricesListCmd(env), newPricesImportCmd(env))
}

// price is a row of the table as -o json writes it, in US dollars per million tokens.
type price struct {
	Provider   string `json:"provider"`
	Model      string `json:"model"`
	Input      string `json:"input"`
	Output     string `json:"output"`
	CacheRead  string `json:"cacheRead"`
	CacheWrite string `json:"cacheWrite"`
	AsOf       string `json:"asOf"`
	Source     string `json:"source"`
}

func newPricesListCmd(env process.Env) *cobra.Command {
	file, f := "", command.FormatTable
	cmd := &cobra.Command{
		Use: "list", Short: "List the prices, in US dollars per million tokens",
		Long: `List the built-in prices of this program in US dollars per million tokens, each with
the date on which it was collected and the page to check it. With --prices the rows of
a price file override the built-in ones. No request is sent: a control plane uses the
table of its own version and its own --prices.`,
		Example: `  svc costs prices list
  svc costs prices list --prices prices.json -o json`, Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			table, err := pricing.Load(file)
			if err != nil {
				return command.Usage(err, "")
			}
			list := []price{}
			for _, r := range table.Rows() {
				p := price{r.Provider, r.Model, dollars(r.Input), dollars(r.Output), dollars(r.CacheRead), dollars(r.CacheWrite), r.AsOf, r.Source}
				list = append(list, p)
			}
			return command.WriteList(env, f, []string{"PROVIDER", "MODEL", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "AS OF", "SOURCE"}, func(p price) []string {
				return []string{p.Provider, p.Model, p.Input, p.Output, p.CacheRead, p.CacheWrite, p.AsOf, p.Source}
			}, list)
		},
	}
	cmd.Flags().StringVar(&file, "prices", "", "price file whose rows override the built-in ones")
	command.AddFormatFlag(cmd, &f, command.ListFormats...)
	return cmd
}

// dollars writes nano-dollars as a decimal of dollars.
func dollars(nano int64) string {
	text := strconv.FormatInt(nano/1_000_000_000, 10) + "." + fmt.Sprintf("%09d", nano%1_000_000_000)
	text = strings.TrimRight(text, "0")
	if i := strings.IndexByte(text, '.'); len(text)-i <= 2 { // cents, as prices are written
		text += strings.Repeat("0", 3-(len(text)-i))
	}
	return text
}

func newPricesImportCmd(env process.Env) *cobra.Command {
	return &cobra.Command{
		Use: "import FILE", Short: "Create a price file from LiteLLM's price map",
		Long: `Read LiteLLM's model_prices_and_context_window.json ("-" for standard input) and write a
price file for 'svc serve --prices' to standard output. It has the prices of input,
output, cache-read and cache-write tokens, each with today's date and its source. Entries
without token prices are skipped, and so are resellers' entries for a model of another
provider in the map; the number of skipped entries is written to standard error. An entry
that cannot be read fails the whole import.`,
		Example: `  svc costs prices import model_prices_and_context_window.json >prices.json`,
		Args:    command.WantArgs("a FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			data, err := env.ReadFile(args[0])
			if err != nil {
				return command.Usage(err, "")
			}
			made, err := pricing.ImportLiteLLM(args[0], data, env.Now().UTC().Format("2006-01-02"))
			if err != nil {
				return command.Usage(err, "the file is LiteLLM's model_prices_and_context_window.json")
			}
			fmt.Fprintf(env.Stderr, "%d prices\n", made.Models)
			for _, why := range slices.Sorted(maps.Keys(made.Skipped)) {
				fmt.Fprintf(env.Stderr, "%d entries skipped: %s\n", made.Skipped[why], why)
			}
			_, err = env.Stdout.Write(made.File)
			return err
		},
	}
}
