package edlcmd

import (
	"cmp"
	"log/slog"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/edl-go/edl/remote/kubernetes"
)

// placeFlags say which namespace of which Kubernetes cluster is meant.
type placeFlags struct {
	kubeconfig string
	context    string
	namespace  string
}

// reachFlagNames are those of placeFlags that mean nothing for a listener.
var reachFlagNames = []string{"kubeconfig", "context"}

func (f *placeFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "reach the Kubernetes cluster as `FILE` says (default: as kubectl does, and in a pod by its service account)")
	flags.StringVar(&f.context, "context", "", "reach the Kubernetes cluster of the context `NAME` (default: the current one)")
	if flags.Lookup("namespace") == nil {
		flags.StringVar(&f.namespace, "namespace", "", "the namespace `NAME` of the Kubernetes cluster (default: that of the context, or of this pod)")
	}
}

// reach reads how to reach the cluster, and which namespace is meant.
func (f *placeFlags) reach() (c *rest.Config, namespace string, err error) {
	c, namespace, err = kubernetes.Config(f.kubeconfig, f.context)
	return c, cmp.Or(f.namespace, namespace), err
}

// resourceFlags turn a command to the TrainingJobs of a namespace, in place of the jobs of a listener.
type resourceFlags struct {
	placeFlags
	on bool
}

// add adds the flags. does says what the command does with TrainingJobs.
func (f *resourceFlags) add(cmd *cobra.Command, does string) {
	cmd.Flags().BoolVar(&f.on, "kubernetes", false, does)
	if cmd.Flags().Lookup("namespace") == nil {
		cmd.Flags().StringVar(&f.namespace, "namespace", "", inNamespace+"; with --kubernetes, in that of the cluster (default: that of the context, or of this pod)")
	}
	f.placeFlags.add(cmd)
}

// check refuses flags that mean nothing for what the command is turned to, and says in which namespace a listener has the jobs. idle are those that mean nothing for TrainingJobs.
func (f *resourceFlags) check(cmd *cobra.Command, find *findFlags, idle ...string) error {
	if f.on {
		kubernetes.LogTo(slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))) // that calls wait for their turn is nothing for the user of a command
		return refuseIdle(cmd.Flags(), append(idle, "listener"), "TrainingJobs of a cluster", "it without --kubernetes, for jobs of a listener")
	}
	find.namespace = f.namespace
	return refuseIdle(cmd.Flags(), reachFlagNames, "jobs of a listener", "it together with --kubernetes")
}
