package edlcmd

import (
	"context"
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/kubernetes"
	"github.com/edl-go/edl/remote/listen"
)

// kubernetesFlags are the flags of a listener whose roles are pods.
type kubernetesFlags struct {
	on         bool
	kubeconfig string
	namespace  string
	image      string
	name       string
	template   string
}

func (f *kubernetesFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.on, "kubernetes", false, "start roles as Jobs of a Kubernetes cluster")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "reach the cluster as `FILE` says (default: as kubectl does, and in a pod by its service account)")
	flags.StringVar(&f.namespace, "namespace", "", "make all objects in the namespace `NAME` (default: that of the cluster's context, or of this pod)")
	flags.StringVar(&f.image, "image", "", "run roles in the image `IMAGE`, which has the same build of edl")
	flags.StringVar(&f.name, "kubernetes-name", kubernetes.DefaultName, "be the listener `NAME` of the namespace: Jobs of an earlier one of this name are deleted")
	flags.StringVar(&f.template, "pod-template", "", "give pods what `FILE` says, a PodTemplateSpec: volumes, node selector, tolerations, service account and others")
}

// kubernetesFlagNames are the flags that mean nothing without --kubernetes.
var kubernetesFlagNames = []string{"kubeconfig", "namespace", "image", "kubernetes-name", "pod-template"}

// launcher connects to the cluster. The options are for the listener that uses it.
func (f *kubernetesFlags) launcher(ctx context.Context, l *listenFlags, log *slog.Logger) (*kubernetes.Launcher, []remote.Option, error) {
	if f.image == "" {
		return nil, nil, fault.E(fault.InvalidArgument, fault.At("listen --kubernetes"), fault.Got("no image"), fault.Want("--image IMAGE, which pods run"),
			fault.Hint("it has the same build of edl as this listener"))
	}
	if host, _, _ := net.SplitHostPort(l.address); host == "" || net.ParseIP(host).IsUnspecified() {
		return nil, nil, fault.E(fault.InvalidArgument, fault.At("--addr"), fault.Got(fault.Quote(l.address)), fault.Want("the address of this host or pod, which pods reach"))
	}
	config, namespace, err := kubernetes.Config(f.kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	s := kubernetes.Settings{Namespace: f.namespace, Image: f.image, Name: f.name}
	if s.Namespace == "" {
		s.Namespace = namespace
	}
	if s.Etcd, err = kubernetes.ReadAccess(l.access); err != nil {
		return nil, nil, err
	}
	if f.template != "" {
		if s.Template, err = kubernetes.ReadTemplate(f.template); err != nil {
			return nil, nil, err
		}
	}
	file, err := credential.File()
	if err != nil {
		return nil, nil, err
	}
	authority, err := credential.OpenOrMake(file)
	if err != nil {
		return nil, nil, err
	}
	own, err := listen.OwnCredentials(authority, l.life)
	if err != nil {
		return nil, nil, err
	}
	launcher, err := kubernetes.NewLauncher(ctx, config, s, own, log)
	return launcher, []remote.Option{remote.WithAuthority(authority), remote.WithRolesElsewhere()}, err
}

// newPod is the command of pods of roles. It is not for people: what to do is mounted. Its arguments only name the role.
func newPod(c *console) *cobra.Command {
	return &cobra.Command{
		Use:    "pod [JOB ROLE]",
		Short:  "Run the role of a Kubernetes pod; started by edl itself",
		Hidden: true,
		Args:   cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, _ []string) error {
			pod := kubernetes.Here(c.err, os.Getenv)
			launcher, err := childProcesses("", pod.Access())
			if err != nil {
				return err
			}
			pod.Launcher = launcher
			return kubernetes.Run(cmd.Context(), pod, slog.New(slog.NewTextHandler(c.err, nil)))
		},
	}
}
