package edlcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
)

// tellExpiry warns who speaks to a listener with credentials that soon expire. Of credentials that cannot be used the connection tells.
func tellExpiry(cmd *cobra.Command, c *console) {
	at := cmd.Flags().Lookup("listener")
	if at == nil {
		at = cmd.Flags().Lookup("remote")
	}
	if at == nil || at.Name == "remote" && !at.Changed {
		return
	}
	own, err := credential.OpenUser()
	if err != nil || own == nil || time.Until(own.Expires()) > soonExpired {
		return
	}
	fmt.Fprintf(c.err, "edl: your %s expire on %s: ask the user of the listener for others\n", own, own.Expires().Format(time.DateTime))
}

// maxDays bounds how long credentials of a user are valid.
const maxDays = 400

func newCredentials(c *console) *cobra.Command {
	var file string
	var roles []string
	var days int
	cmd := &cobra.Command{
		Use:   "credentials NAME",
		Short: "Write credentials with which another user may call your listeners",
		Long: `Write a certificate for the user NAME, its key, and the certificate of your authority into one file. Give the file to that user, and to nobody else. The
user names it in the environment variable EDL_CREDENTIALS.

A viewer reads what the listener knows of all jobs. A submitter also submits jobs and acts on its own: scale, stop, resume. They read and write
where "edl listen --allow-data" and "--allow-save" let them. An admin may do with your listeners what you may.`,
		Example: "  edl credentials alice --days 30 -o alice.pem",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVarP(&file, "out", "o", "", "write `FILE`, which must not be there yet; - prints the credentials and nothing else")
	cmd.Flags().IntVar(&days, "days", 90, "how many days the credentials are valid, at most 400")
	cmd.Flags().StringSliceVar(&roles, "role", []string{string(credential.Submitter)}, "what the user may do at your listeners: viewer, submitter or admin (`ROLE`), or ROLE@NAMESPACE; may be repeated")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		switch {
		case file == "":
			return fault.E(fault.InvalidArgument, fault.At("credentials"), fault.Got("no file"), fault.Want("-o FILE"))
		case days < 1 || days > maxDays:
			return fault.E(fault.InvalidArgument, fault.At("--days"), fault.Gotf("%d", days), fault.Wantf("1 to %d", maxDays))
		}
		if err := credential.CheckUser(args[0]); err != nil {
			return err
		}
		access, within, err := credential.ParseGrants(roles...)
		if err != nil {
			return err
		}
		where, err := credential.File()
		if err != nil {
			return err
		}
		a, err := credential.OpenOrMake(where)
		if err != nil {
			return err
		}
		name := credential.Name{Kind: credential.User, User: args[0], Access: access, Within: within}
		own, err := a.Issue(name, time.Duration(days)*24*time.Hour)
		if err != nil {
			return err
		}
		if file == "-" {
			_, err = c.out.Write(own.PEM())
			return err
		}
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return fault.E(fault.InvalidArgument, fault.At(file), fault.Got("a file that is there"), fault.Want("another name"))
		}
		if err != nil {
			return fileFault(file, err)
		}
		if _, err = f.Write(own.PEM()); err == nil {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(file)
			return fileFault(file, err)
		}
		_, err = fmt.Fprintf(c.out, "%s: credentials of the %s %s for %d days\n", file, name.Roles(), fault.Quote(args[0]), days)
		return err
	}
	return cmd
}
