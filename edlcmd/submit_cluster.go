package edlcmd

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/kubernetes/operator"
)

// resourceFlagsOfSubmit are the flags of a job that becomes a TrainingJob of a cluster.
type resourceFlagsOfSubmit struct {
	resourceFlags
	dry bool
}

func (f *resourceFlagsOfSubmit) add(cmd *cobra.Command) {
	f.resourceFlags.add(cmd, "make a TrainingJob of the job file, for the \"edl operator\" of a Kubernetes namespace")
	cmd.Flags().BoolVar(&f.dry, dryRun, false, "print the TrainingJob and the ConfigMap with its program, for kubectl, and make nothing")
}

// names are the flags that mean nothing without --kubernetes.
func (f *resourceFlagsOfSubmit) names() []string {
	return append([]string{dryRun}, reachFlagNames...)
}

// submitResource makes a TrainingJob of a job file. Whatever the job is, its file says: flags of it have no effect on a resource. Flags that complete the program have.
func submitResource(cmd *cobra.Command, c *console, f *submitFlags, args []string) error {
	var idle []string
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		switch flag.Name {
		case "file", "startup", "batch-size", "kubernetes", "kubeconfig", "context", "namespace", dryRun, "output", "help":
		default:
			idle = append(idle, flag.Name)
		}
	})
	if err := refuseIdle(cmd.Flags(), idle, "a job that becomes a TrainingJob", "what it says in the job file"); err != nil {
		return err
	}
	if f.file == "" {
		return fault.E(fault.InvalidArgument, fault.At("--kubernetes"), fault.Got("no job file"), fault.Want("-f FILE, with a name"))
	}
	file, err := jobspec.Load(f.file)
	if err != nil {
		return err
	}
	jobspec.Complete(file.Spec)
	if err := jobspec.Check(file.Spec); err != nil {
		return err
	}
	path := file.Program
	if len(args) > 0 {
		path = args[0]
	}
	if path == "" {
		return fault.E(fault.InvalidArgument, fault.At(f.file), fault.Got("no program"), fault.Want("one in the job file, or as an argument"))
	}
	p, params, err := loadWhole(path)
	if err != nil {
		return err
	}
	if params != "" && file.Spec.Params == "" {
		return fault.E(fault.Unsupported, fault.At(path), fault.Got("a saved model, whose parameters are on this machine"), fault.Want("its program file, and params in the job file: a path of the pods"))
	}
	if err := f.startup.give(p); err != nil {
		return err
	}
	if err := f.batch.give(cmd.Flags(), file.Spec, p); err != nil {
		return err
	}
	encoded, err := p.Encode()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(f.file)
	if err != nil {
		return fileFault(f.file, err)
	}
	s, err := operator.NewSubmission(f.cluster.namespace, text, encoded)
	if err != nil {
		return err
	}
	if f.cluster.dry {
		b, err := s.YAML()
		if err == nil {
			_, err = c.out.Write(b)
		}
		return err
	}
	config, namespace, err := f.cluster.reach()
	if err != nil {
		return err
	}
	if err := s.Create(cmd.Context(), config, namespace); err != nil {
		return err
	}
	if f.output.value == "json" {
		return writeJSON(c.out, struct {
			Job       string `json:"job"`
			Namespace string `json:"namespace"`
		}{s.Name, namespace})
	}
	fmt.Fprintf(c.err, "TrainingJob %s in the namespace %s; \"kubectl -n %s get tj %s -w\" shows how far it is\n", s.Name, namespace, namespace, s.Name)
	_, err = fmt.Fprintln(c.out, s.Name)
	return err
}
