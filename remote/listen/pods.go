package listen

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/launch"
)

// A PodLauncher is a Launcher whose roles are pods of a cluster.
type PodLauncher interface {
	launch.Launcher
	// CheckPods refuses a job that asks for pods which the launcher does not make.
	CheckPods(spec *job.JobSpec) error
}

// checkPods refuses a job that says of pods what this listener does not give them.
func checkPods(l launch.Launcher, spec *job.JobSpec) error {
	if spec.Queue != "" {
		return fault.E(fault.InvalidArgument, fault.At("job"), fault.Got("the queue "+fault.Quote(spec.Queue)), fault.Want("it in a TrainingJob, which the queue admits"))
	}
	if p, ok := l.(PodLauncher); ok {
		if spec.Namespace != "" && spec.Namespace != credential.DefaultNamespace {
			return fault.E(fault.InvalidArgument, fault.At("job"), fault.Got("the namespace "+fault.Quote(spec.Namespace)+" at a listener whose roles are pods"), fault.Want("none"),
				fault.Hint("it has the namespace of Kubernetes in which the listener is: submit to a listener there"))
		}
		return p.CheckPods(spec)
	}
	if jobspec.HasPods(spec) {
		return fault.E(fault.InvalidArgument, fault.At("job"), fault.Got("pod, trainer_pod or pserver_pod, at a listener whose roles are processes"), fault.Want(`"edl listen --kubernetes"`))
	}
	return nil
}
