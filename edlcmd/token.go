package edlcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
)

// tokenFlags say which listener's tokens are meant.
type tokenFlags struct{ address, data string }

func (f *tokenFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.address, "addr", defaultAddress, "the `HOST:PORT` that the listener was started with")
	cmd.Flags().StringVar(&f.data, "data-dir", "", "the data folder `DIR` of the listener, if it was started with one")
}

// open finds the tokens of the listener. It need not run, but must have.
func (f *tokenFlags) open() (*credential.Tokens, error) {
	if err := checkAddress("--addr", f.address); err != nil {
		return nil, err
	}
	data := f.data
	if data == "" {
		data = dataOf(f.address, false)
	}
	if data == "" {
		return nil, fault.E(fault.InvalidArgument, fault.At("--addr"), fault.Got("a listener without a data folder"), fault.Want("--data-dir DIR"))
	}
	if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) {
		return nil, fault.E(fault.NotFound, fault.At("--addr "+f.address), fault.Got("no data folder of a listener at "+data), fault.Want("the address of a listener that runs or has run"),
			fault.Hint("name it with --addr, or its folder with --data-dir"))
	}
	return credential.OpenTokens(tokenFile(data)), nil
}

func newToken(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, list and take back tokens for the dashboard and the metrics of a listener",
		Long: `Make, list and take back tokens for the pages that "edl listen --web" serves. A browser or Prometheus shows a token, as
"Authorization: Bearer TOKEN". The data folder of the listener keeps the SHA-256 of each, and never the token itself. A token counts from when it is made, and
does not count any more when it is revoked; the listener need not start again.`,
	}
	cmd.AddCommand(newTokenCreate(c), newTokenList(c), newTokenRevoke(c))
	return cmd
}

func newTokenCreate(c *console) *cobra.Command {
	f := &tokenFlags{}
	var days int
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Make a token and print it, once",
		Example: "  edl token create prometheus --role viewer > /etc/prometheus/edl.token",
		Args:    cobra.ExactArgs(1),
	}
	f.add(cmd)
	var roles []string
	cmd.Flags().StringSliceVar(&roles, "role", []string{string(credential.Viewer)}, "what the token allows: viewer, submitter or admin (`ROLE`), or ROLE@NAMESPACE; may be repeated")
	cmd.Flags().IntVar(&days, "days", 90, "how many days the token is valid, at most 400")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if days < 1 || days > maxDays {
			return fault.E(fault.InvalidArgument, fault.At("--days"), fault.Gotf("%d", days), fault.Wantf("1 to %d", maxDays))
		}
		access, within, err := credential.ParseGrants(roles...)
		if err != nil {
			return err
		}
		tokens, err := f.open()
		if err != nil {
			return err
		}
		secret, err := tokens.Create(credential.Name{User: args[0], Access: access, Within: within}, time.Duration(days)*24*time.Hour)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.out, secret)
		return err
	}
	return cmd
}

func newTokenList(c *console) *cobra.Command {
	f := &tokenFlags{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens of a listener, without the tokens themselves",
		Args:  cobra.NoArgs,
	}
	f.add(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		tokens, err := f.open()
		if err != nil {
			return err
		}
		all, err := tokens.List()
		if err != nil {
			return err
		}
		if output.value == "json" {
			return writeJSON(c.out, struct {
				Tokens []credential.Token `json:"tokens"`
			}{append([]credential.Token{}, all...)})
		}
		t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "NAME\tROLE\tCREATED\tEXPIRES")
		for _, o := range all {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", o.Name, credential.Name{Access: o.Access, Within: o.Within}.Roles(), o.Created.Format(time.RFC3339), o.Expires.Format(time.RFC3339))
		}
		return t.Flush()
	}
	return cmd
}

func newTokenRevoke(c *console) *cobra.Command {
	f := &tokenFlags{}
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Take a token back: it does not count any more",
		Args:  cobra.ExactArgs(1),
	}
	f.add(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		tokens, err := f.open()
		if err != nil {
			return err
		}
		if err := tokens.Revoke(args[0]); err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.out, "token %s does not count any more\n", fault.Quote(args[0]))
		return err
	}
	return cmd
}
