package edlcmd

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/policy"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/kubernetes/operator"
	"github.com/edl-go/edl/remote/listen"
)

// operatorUser owns the jobs of TrainingJobs.
const operatorUser = "trainingjobs"

func newOperator(c *console) *cobra.Command {
	f := &listenFlags{}
	var definition bool
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Run the TrainingJobs of a Kubernetes namespace",
		Long: `Run the TrainingJobs of a Kubernetes namespace, until interrupted. It is a listener, as "edl listen --kubernetes" is, whose jobs also come from
resources of the cluster: "kubectl apply -f job.yaml" submits a job, "kubectl get tj -w" shows how far it is, "kubectl scale tj/NAME --replicas N" changes its trainers,
and "kubectl delete tj/NAME" stops it.`,
		Example: "  edl operator --crd | kubectl apply -f -\n  edl operator --image edl:latest --addr $(POD_IP):7164 --data-dir /data/edl --allow-data /data --allow-save /data/models",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if definition {
				b, err := operator.Definition()
				if err == nil {
					_, err = c.out.Write(b)
				}
				return err
			}
			f.cluster.on, f.attends = true, f.operate
			return serveJobs(cmd, c, f)
		},
	}
	f.addTo(cmd, c)
	cmd.Flags().BoolVar(&definition, "crd", false, "print the definition of the resource TrainingJob, and do nothing else")
	return cmd
}

// operate runs the TrainingJobs of the namespace at a listener, until ctx ends.
func (f *listenFlags) operate(ctx context.Context, l *remote.Listener, log *slog.Logger) error {
	config, namespace, err := f.cluster.reach()
	if err != nil {
		return err
	}
	file, err := credential.File()
	if err != nil {
		return err
	}
	authority, err := credential.Open(file)
	if err != nil {
		return err
	}
	own, err := authority.IssueRenewing(credential.Name{Kind: credential.User, User: operatorUser, Access: credential.Admin}, listen.CredentialLife)
	if err != nil {
		return err
	}
	programs, err := f.programs(file)
	if err != nil {
		return err
	}
	client, err := remote.Dial(ctx, l.Address(), remote.WithCredentials(own))
	if err != nil {
		return err
	}
	defer client.Close()
	submit := func(ctx context.Context, f *jobspec.File, program []byte) error {
		return submitFile(ctx, f, program, programs, client.Address(), own)
	}
	return operator.Run(ctx, operator.Config{REST: config, Namespace: namespace, Client: client, Submit: submit, Log: log})
}

// programs is where programs of TrainingJobs may lie: where their jobs may read.
func (f *listenFlags) programs(authority string) (*policy.Policy, error) {
	p := &policy.Policy{}
	for _, of := range []struct {
		flag string
		list []string
		to   *policy.Places
	}{{policy.ReadFlag, f.allowed.data, &p.Read}, {policy.WriteFlag, f.allowed.save, &p.Write}} {
		places, err := policy.ParsePlaces(of.flag, of.list)
		if err != nil {
			return nil, err
		}
		*of.to = places
	}
	data, err := filepath.Abs(f.data)
	if err != nil {
		return nil, fileFault(f.data, err)
	}
	return p.Guard(data, authority), nil
}

// submitFile submits the job of a file. program is its program; nil: the file names a path, which must lie where programs may.
func submitFile(ctx context.Context, f *jobspec.File, program []byte, programs *policy.Policy, address string, own *credential.Credentials) (err error) {
	path, spec := f.Program, f.Spec
	if program != nil {
		dir, err := os.MkdirTemp("", "edl-program-")
		if err != nil {
			return fault.File(fault.Unavailable, os.TempDir(), err)
		}
		defer os.RemoveAll(dir)
		path = filepath.Join(dir, "program.pb")
		if err := os.WriteFile(path, program, 0o600); err != nil {
			return fault.File(fault.Unavailable, path, err)
		}
	} else if _, err := programs.Stat(path); err != nil {
		return err
	}
	p, params, err := loadWhole(path)
	if err != nil {
		return err
	}
	if spec.Params == "" {
		spec.Params = params
	}
	jobspec.Complete(spec)
	if err := jobspec.Check(spec); err != nil {
		return err
	}
	run, err := (&submitFlags{}).training(&cobra.Command{}, spec, p)
	if err != nil {
		return err
	}
	e, err := remote.NewExecutor(address, spec, remote.WithCredentials(own))
	if err != nil {
		return err
	}
	defer closeExecutor(e, &err)
	_, err = e.Submit(ctx, p, run)
	return err
}
