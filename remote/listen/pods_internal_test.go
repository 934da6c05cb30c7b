package listen

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/launch"
)

// podLauncher makes no pods with an image.
type podLauncher struct{ launch.Launcher }

func (podLauncher) CheckPods(spec *job.JobSpec) error {
	if spec.Pod.GetImage() != "" {
		return fault.New(fault.Denied, "the image")
	}
	return nil
}

// A job that says something of pods is for a listener that makes some, which says what it lets jobs have. A queue is for resources of a cluster.
func TestPodsOfJobs(t *testing.T) {
	processes := launch.Processes{}
	for _, c := range []struct {
		launcher launch.Launcher
		spec     *job.JobSpec
		want     fault.Kind
	}{
		{processes, &job.JobSpec{Pod: &job.Pod{}}, fault.InvalidArgument},
		{processes, &job.JobSpec{TrainerPod: &job.Pod{}}, fault.InvalidArgument},
		{processes, &job.JobSpec{PserverPod: &job.Pod{}}, fault.InvalidArgument},
		{podLauncher{}, &job.JobSpec{Pod: &job.Pod{Image: "edl:2"}}, fault.Denied},
		{podLauncher{}, &job.JobSpec{Queue: "main"}, fault.InvalidArgument},
	} {
		m := NewManager(Config{Launcher: c.launcher})
		if _, err := m.Start(t.Context(), c.spec); !errors.Is(err, c.want) {
			t.Errorf("%v: %v, want %v", c.spec, err, c.want)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(checkPods(processes, &job.JobSpec{}), checkPods(podLauncher{}, &job.JobSpec{Pod: &job.Pod{}})); err != nil {
		t.Error(err)
	}
}
