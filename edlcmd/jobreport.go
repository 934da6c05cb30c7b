package edlcmd

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/web"
)

func newJobReport(c *console) *cobra.Command {
	f := &findFlags{}
	var file string
	cmd := &cobra.Command{
		Use:   "report [JOB]",
		Short: "Write what is known of a job as one HTML file",
		Long: `Write what the dashboard shows of a job as one HTML file, which loads nothing from elsewhere: state and cause, values of steps, where the time
of rounds went, roles with their restarts, queues, pservers, checkpoints, ledger, and the last lines of the log. The job may have ended. Without JOB it is
the job that runs, or the one that was started last where none runs.`,
		Example: "  edl report mnist -o mnist.html",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return fault.E(fault.InvalidArgument, fault.At("edl report"), fault.Got("no file"), fault.Want("-o FILE"))
			}
			return writeReport(cmd.Context(), c, f, args, file)
		},
	}
	f.add(cmd)
	f.addNamespace(cmd, inNamespace)
	cmd.Flags().StringVarP(&file, "out", "o", "", "write `FILE`")
	return cmd
}

func writeReport(ctx context.Context, c *console, f *findFlags, args []string, file string) error {
	client, name, err := f.openJob(ctx, args)
	if err != nil {
		return err
	}
	defer client.Close()
	b, err := web.Report(ctx, web.Config{Source: web.Of(client), Address: client.Address(), Version: c.currentVersion().Version}, name)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, b, 0o640); err != nil {
		return fileFault(file, err)
	}
	_, err = fmt.Fprintf(c.out, "%s: report of job %s\n", strings.TrimSpace(file), name)
	return err
}
