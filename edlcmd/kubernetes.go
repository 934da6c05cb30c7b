package edlcmd

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/kubernetes"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/listen/schedule"
)

// kubernetesFlags are the flags of a listener whose roles are pods.
type kubernetesFlags struct {
	placeFlags
	on       bool
	image    string
	name     string
	template string
	allowed  []string
	load     float64
	dry      string // a job file
}

func (f *kubernetesFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.placeFlags.add(cmd)
	flags.StringVar(&f.image, "image", "", "run roles in the image `IMAGE`, which has the same build of edl")
	flags.StringVar(&f.name, "kubernetes-name", kubernetes.DefaultName, "be the listener `NAME` of the namespace: of several that run, one works, and the others wait")
	flags.StringVar(&f.template, "pod-template", "", "give pods what `FILE` says, a PodTemplateSpec: volumes, node selector, tolerations, service account and others")
	flags.StringArrayVar(&f.allowed, allowPods, nil, "let jobs give their pods what `KIND=PATTERN` says, such as claim=data-*, image=registry.example/*, or one of serviceaccount, priorityclass, secret, configmap, annotation, toleration; repeatable")
	flags.StringVar(&f.dry, dryRun, "", "print the objects that the roles of the job file `FILE` would be, without credentials, and start nothing")
	flags.Float64Var(&f.load, maxLoad, 0, "let jobs share the nodes of the cluster, up to `PART` of what each has, without what other pods ask for: 0.97, or 0: nodes are not counted")
}

// Names of flags.
const (
	maxLoad   = "max-load"
	allowPods = "allow-pods"
	dryRun    = "dry-run"
)

// kubernetesFlagNames are the flags that mean nothing without --kubernetes.
var kubernetesFlagNames = append([]string{"image", "kubernetes-name", "pod-template", allowPods, maxLoad, dryRun, "namespace"}, reachFlagNames...)

// keptLogs is the folder with the logs of jobs, in the data folder of a listener whose jobs outlive it.
const keptLogs = "pods"

// A listenerOfCluster is what a listener has of the cluster.
type listenerOfCluster struct {
	*kubernetes.Launcher
	term    *kubernetes.Term
	options []remote.Option
}

// Close is called when the listener has ended: the next one begins.
func (c *listenerOfCluster) Close() {
	c.Launcher.Close()
	c.term.Resign()
}

// settings are what the pods of the listener have in common, but what etcd asks for.
func (f *kubernetesFlags) settings(l *listenFlags, namespace string) (s kubernetes.Settings, err error) {
	if f.image == "" {
		return s, fault.E(fault.InvalidArgument, fault.At(l.command()), fault.Got("no image"), fault.Want("--image IMAGE, which pods run"),
			fault.Hint("it has the same build of edl as this listener"))
	}
	s = kubernetes.Settings{Namespace: namespace, Image: f.image, Name: f.name}
	if s.Allowed, err = kubernetes.ParseAllowedPods(f.allowed); err != nil {
		return s, err
	}
	if f.template != "" {
		if s.Template, err = kubernetes.ReadTemplate(f.template); err != nil {
			return s, err
		}
	}
	return s, s.Check()
}

// join connects to the cluster, and waits until no other listener of the name works there.
func (f *kubernetesFlags) join(ctx context.Context, l *listenFlags, log *slog.Logger) (*listenerOfCluster, error) {
	if f.image == "" { // before the cluster is looked for
		_, err := f.settings(l, "")
		return nil, err
	}
	host, _, _ := net.SplitHostPort(l.address)
	if host == "" || net.ParseIP(host).IsUnspecified() {
		return nil, fault.E(fault.InvalidArgument, fault.At("--addr"), fault.Got(fault.Quote(l.address)), fault.Want("the address of this host or pod, which pods reach"))
	}
	if !(f.load >= 0 && f.load <= 1) {
		return nil, fault.E(fault.InvalidArgument, fault.At("--"+maxLoad), fault.Gotf("%v", f.load), fault.Want("a part of each node, such as 0.97, or 0"))
	}
	kubernetes.LogTo(log)
	config, namespace, err := f.reach()
	if err != nil {
		return nil, err
	}
	s, err := f.settings(l, namespace)
	if err != nil {
		return nil, err
	}
	if s.Etcd, err = kubernetes.ReadAccess(l.access); err != nil {
		return nil, err
	}
	file, err := credential.File()
	if err != nil {
		return nil, err
	}
	authority, err := credential.OpenOrMake(file)
	if err != nil {
		return nil, err
	}
	own, err := listen.OwnCredentials(authority, l.life)
	if err != nil {
		return nil, err
	}
	me, err := os.Hostname() // of a pod, its name
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "name of this host", err)
	}
	c := &listenerOfCluster{options: []remote.Option{remote.WithAuthority(authority), remote.WithRolesElsewhere()}}
	if c.term, err = kubernetes.Elect(ctx, config, s, me+"_"+rand.Text(), log); err != nil {
		return nil, err
	}
	if l.data != "" && len(l.endpoints) > 0 {
		s.Keep = filepath.Join(l.data, keptLogs)
	}
	if c.Launcher, err = kubernetes.NewLauncher(ctx, config, s, own, log); err != nil {
		c.term.Resign()
		return nil, err
	}
	if f.load > 0 {
		c.options = append(c.options, remote.WithRoom(func(ctx context.Context, tell func([]schedule.Node) error) {
			kubernetes.FollowRoom(ctx, config, s, f.load, log, tell)
		}))
	}
	if s.Keep != "" {
		c.options = append(c.options, remote.WithKeeping(listen.Keeping{Launcher: c.Launcher, Keeper: "kubernetes " + s.Namespace + "/" + s.Name}))
	}
	return c, nil
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
