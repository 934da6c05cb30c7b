package edlcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/view"
	"github.com/spf13/cobra"
)

func newLogs(c *console) *cobra.Command {
	f := &findFlags{}
	cluster := &resourceFlags{}
	var follow bool
	cmd := &cobra.Command{
		Use:     "logs [JOB [ROLE]]",
		Short:   "Print what the roles of a job wrote",
		Example: "  edl logs mnist trainer-1 --follow",
		Args:    cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch err := cluster.check(cmd, f); {
			case err != nil:
				return err
			case cluster.on:
				return printPodLogs(cmd.Context(), c, cluster, follow, args)
			}
			return printLogs(cmd.Context(), c, f, follow, args)
		},
	}
	f.add(cmd)
	cluster.add(cmd, "print what the pods of a TrainingJob of a Kubernetes namespace wrote; also those that are gone")
	cmd.Flags().BoolVar(&follow, "follow", false, "wait for more until the job has ended")
	return cmd
}

func printLogs(ctx context.Context, c *console, f *findFlags, follow bool, args []string) error {
	client, name, err := f.openJob(ctx, args)
	if err != nil {
		return err
	}
	defer client.Close()
	role := ""
	if len(args) > 1 {
		role = args[1]
	}
	if role != "" {
		if err := checkRole(ctx, client, name, role); err != nil {
			return err
		}
	}
	err = client.Logs(ctx, name, role, follow, func(from, line string) error {
		if role == "" {
			line = from + " | " + line
		}
		_, err := fmt.Fprintln(c.out, line)
		return err
	})
	return fellSilent(err)
}

// checkRole refuses the name of a role that a job does not have, which would have written nothing.
func checkRole(ctx context.Context, client *remote.Client, name, role string) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	s, err := client.Status(ctx, name)
	if err != nil {
		return err
	}
	var roles []string
	for _, r := range s.Roles {
		roles = append(roles, view.RoleName(r.Role, r.Index))
	}
	if slices.Contains(roles, role) || s.State != job.State_RUNNING && !view.Ended(s) { // not all may be there yet
		return nil
	}
	return fault.E(fault.NotFound, fault.At("job "+name), fault.Got("role "+fault.Quote(role)),
		fault.Want("one of "+strings.Join(roles, ", ")))
}

// stopTime bounds the end of a job's roles.
const stopTime = time.Minute

func newStop(c *console) *cobra.Command {
	f := &findFlags{}
	cluster := &resourceFlags{}
	var save bool
	cmd := &cobra.Command{
		Use:   "stop JOB",
		Short: "End a job before its time",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch err := cluster.check(cmd, f); {
			case err != nil:
				return err
			case cluster.on:
				return stopResource(cmd.Context(), c, cluster, args[0], save)
			}
			return stopJob(cmd.Context(), c, f, f.idOf(args[0]), save)
		},
	}
	f.add(cmd)
	cluster.add(cmd, "stop the job of a TrainingJob of a Kubernetes namespace, and delete that, as \"kubectl delete\" does")
	cmd.Flags().BoolVar(&save, "save", false, "make a checkpoint before; a job that cannot make one within a minute goes on")
	return cmd
}

// saveJob makes the last checkpoint of a job, and says where it is.
func saveJob(ctx context.Context, to io.Writer, client *remote.Client, name string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	last, err := remote.Checkpoint(ctx, client, name)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to, "job %s: checkpoint after %d steps, %s@%d\n", name, last.Steps, last.Store, last.Steps)
	return err
}

func stopJob(ctx context.Context, c *console, f *findFlags, name string, save bool) error {
	client, err := f.open(ctx, name)
	if err != nil {
		return err
	}
	defer client.Close()
	if save {
		if err := saveJob(ctx, c.out, client, name, stopTime); err != nil {
			return fault.E(fault.KindOf(err), fault.At("no checkpoint, so the job is not stopped"), fault.Cause(err),
				fault.Hint("\"edl stop\" without --save ends it without one"))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if err := client.Stop(ctx, name); err != nil {
		return err
	}
	s, err := client.Status(ctx, name)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "job %s: %s\n", name, rowOf(s).State)
	return err
}

func newScale(c *console) *cobra.Command {
	f := &findFlags{}
	cluster := &resourceFlags{}
	var numbers job.JobSpec
	cmd := &cobra.Command{
		Use:   "scale JOB --trainers N | --pservers N",
		Short: "Change the number of trainers of an elastic job, or of pservers of a sync job",
		Long: `Change how many trainers an elastic job wants, within the bounds that it was started with (--trainers MIN:MAX). Trainers that are
missing are started. Those that are too many finish their round, give their tasks back, and end.

Or change how many pservers a job has, within the bounds if it was started with some (--pservers MIN:MAX). The job goes on between two rounds, when the state has moved to where it belongs then. No round is trained
twice, and the result is the same, bit for bit. The command ends when the job has the new number.`,
		Example: "  edl scale mnist --trainers 5\n  edl scale mnist --pservers 4",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, flag := range []struct {
				name string
				n    int32
			}{{"trainers", numbers.Trainers}, {"pservers", numbers.Pservers}} {
				if cmd.Flags().Changed(flag.name) && flag.n < 1 {
					return tooFew("--"+flag.name, int64(flag.n))
				}
			}
			switch err := cluster.check(cmd, f, "pservers"); {
			case err != nil:
				return err
			case cluster.on:
				return scaleResource(cmd.Context(), c, cluster, args[0], numbers.Trainers)
			}
			return scaleJob(cmd.Context(), c, f, f.idOf(args[0]), &numbers)
		},
	}
	f.add(cmd)
	cluster.add(cmd, "change spec.replicas of a TrainingJob of a Kubernetes namespace, as \"kubectl scale\" does")
	cmd.Flags().Int32Var(&numbers.Trainers, "trainers", 0, "let the job have `N` trainers")
	cmd.Flags().Int32Var(&numbers.Pservers, "pservers", 0, "let the job have `N` pservers")
	return cmd
}

func scaleJob(ctx context.Context, c *console, f *findFlags, name string, numbers *job.JobSpec) error {
	if numbers.Trainers == 0 && numbers.Pservers == 0 {
		return fault.E(fault.InvalidArgument, fault.Got("no number"), fault.Want("--trainers N or --pservers N"))
	}
	client, err := f.open(ctx, name)
	if err != nil {
		return err
	}
	defer client.Close()
	if numbers.Trainers > 0 {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		if _, err := client.Scale(ctx, name, int(numbers.Trainers)); err != nil {
			return err
		}
		if _, err = fmt.Fprintf(c.out, "job %s wants %d trainers\n", name, numbers.Trainers); err != nil {
			return err
		}
	}
	if numbers.Pservers == 0 {
		return nil
	}
	if _, err := remote.ScaleServers(ctx, client, name, int(numbers.Pservers)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "job %s has %d pservers\n", name, numbers.Pservers)
	return err
}

func newJobsSuspend(c *console) *cobra.Command {
	f := &findFlags{}
	cluster := &resourceFlags{}
	cmd := &cobra.Command{
		Use:   "suspend JOB",
		Short: "Let a job make a checkpoint, end its processes, and wait for edl jobs resume",
		Long: `Let a job make a checkpoint, end its processes, and wait until "edl jobs resume" lets it go on from there. It is the same job: who follows its
steps goes on to. A job that waits in line waits until then. A job that cannot make a checkpoint within a minute goes on.`,
		Example: "  edl jobs suspend mnist",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch err := cluster.check(cmd, f); {
			case err != nil:
				return err
			case cluster.on:
				return suspendResource(cmd.Context(), c, cluster, args[0])
			}
			return suspendJob(cmd.Context(), c, f, f.idOf(args[0]))
		},
	}
	f.add(cmd)
	cluster.add(cmd, "set spec.suspend of a TrainingJob of a Kubernetes namespace, and wait until no pod of its job runs")
	return cmd
}

func suspendJob(ctx context.Context, c *console, f *findFlags, name string) error {
	client, err := f.open(ctx, name)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*stopTime) // for a checkpoint, and for the end of its roles
	defer cancel()
	if err := remote.Suspend(ctx, client, name); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "job %s is suspended; \"edl jobs resume %s\" lets it go on\n", name, name)
	return err
}

func newJobsResume(c *console) *cobra.Command {
	f := &findFlags{}
	cluster := &resourceFlags{}
	var trainers, save string
	var pservers int32
	cmd := &cobra.Command{
		Use:   "resume JOB",
		Short: "Go on with a job that was suspended, was stopped or has failed, from its last checkpoint",
		Long: `Let a job go on that "edl jobs suspend" has suspended: it stands in the job queue again. Or start a job of a listener again that was stopped, or has failed, as a new job: with its program, its data and its settings, from its
last checkpoint. The listener may have been started again since. Nobody follows the steps of the new job: "edl jobs" and "edl logs" show it.
A job without a directory to save to ends with a checkpoint, which stays.`,
		Example: "  edl stop mnist --save && edl jobs resume mnist --pservers 4 --save model",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch err := cluster.check(cmd, f, "trainers", "pservers", "save"); {
			case err != nil:
				return err
			case cluster.on:
				return resumeResource(cmd.Context(), c, cluster, args[0])
			}
			numbers := &job.JobSpec{Pservers: pservers, Save: save}
			if cmd.Flags().Changed("pservers") && pservers < 1 {
				return tooFew("--pservers", int64(pservers))
			}
			if trainers != "" {
				if err := parseTrainers(trainers, numbers); err != nil {
					return err
				}
			}
			if err := absolutePaths(numbers); err != nil {
				return err
			}
			return resumeJob(cmd.Context(), c, f, f.idOf(args[0]), numbers)
		},
	}
	f.add(cmd)
	cluster.add(cmd, "let the job of a TrainingJob of a Kubernetes namespace go on that is suspended")
	cmd.Flags().StringVar(&trainers, "trainers", "", "start `N[:MAX]` trainers (default: as before)")
	cmd.Flags().Int32Var(&pservers, "pservers", 0, "start `N` parameter servers (default: as before)")
	cmd.Flags().StringVar(&save, "save", "", "write all persistable variables to `DIR` when the job is done (default: as before)")
	return cmd
}

func resumeJob(ctx context.Context, c *console, f *findFlags, name string, numbers *job.JobSpec) error {
	client, err := f.open(ctx, "") // the one that had the job may have been started again
	if f.listener == "" && errors.Is(err, fault.NotFound) {
		return fault.E(fault.NotFound, fault.At("job "+name), fault.Got("no listener on this machine"), fault.Want("one that knows the job, or --listener ADDR"),
			fault.Hint("start \"edl listen\" again as before: its data folder has the job. A job that named its own --checkpoint STORE goes on with "+
				"\"edl run PROGRAM --remote --resume STORE\", too"))
	}
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	r, err := remote.Resume(ctx, client, &rpc.ResumeJobRequest{Job: name, Trainers: numbers.Trainers, TrainersMax: numbers.TrainersMax, Pservers: numbers.Pservers,
		Save: numbers.Save})
	if err != nil {
		return err
	}
	as := ""
	if r.Job != name {
		as = " as job " + r.Job
	}
	after := fmt.Sprintf("after %d steps", r.Progress.GetSteps())
	if r.Progress.GetSteps() == 0 {
		after = "from its beginning"
	}
	if _, err = fmt.Fprintf(c.out, "job %s goes on%s %s\n", name, as, after); err != nil || r.Last == "" {
		return err
	}
	_, err = fmt.Fprintf(c.err, "it has no directory to save to (--save): its last checkpoint will stay in %s\n", r.Last)
	return err
}
