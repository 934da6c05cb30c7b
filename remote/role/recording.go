package role

import (
	"context"
	"slices"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/timing"
)

// A recording is what a pserver or trainer notes of its rounds. A coordinator takes part in none, and notes what it hands out in those that the listener traces.
type recording struct {
	times   *timing.Recorder
	kernels *executor.Profile // nil: the job profiles no steps
	roles   int               // of the job that may record
}

// newRecording begins to record rounds, and kernels if the job profiles its first steps.
func newRecording(spec *job.RoleSpec) recording {
	phases := timing.Trainer
	switch spec.Role {
	case job.Role_PSERVER, job.Role_STANDBY:
		phases = timing.PServer
	case job.Role_COORDINATOR:
		if spec.TraceRounds == 0 {
			return recording{}
		}
		r := recording{times: timing.New(timing.Coordinator, 0, 0)}
		r.times.Sample(spec.TraceRounds)
		return r
	}
	s := spec.Spec
	r := recording{roles: int(s.Pservers*(1+s.Standby)) + int(max(s.Trainers, s.TrainersMax))}
	first, steps := spec.Begin.GetSteps(), min(int(s.ProfileSteps), timing.RoundsOf(r.roles))
	r.times = timing.New(phases, first, steps)
	r.times.Sample(spec.TraceRounds)
	if steps > 0 {
		r.kernels = &executor.Profile{Before: first + uint64(steps)}
	}
	return r
}

// options adds to the options of an executor that its kernels are recorded, if the job profiles its steps.
func (r recording) options(options ...executor.Option) []executor.Option {
	if r.kernels != nil {
		options = append(options, executor.WithProfile(r.kernels))
	}
	return options
}

// follow tells the times of rounds at every tick of this length if there are new ones, and when ctx has ended.
func (r recording) follow(ctx context.Context, every time.Duration, to func(*job.RoundTimes)) {
	if r.times == nil {
		return
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for told := uint64(0); ; {
		if n := r.times.Count(); n > told {
			told = n
			to(r.times.Times())
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			r.times.End()
		}
	}
}

// tell tells what was recorded of the steps that the job profiles, when the role ends.
func (r recording) tell(to Report) {
	if r.kernels == nil || to == nil {
		return
	}
	r.times.End()
	runs, lost := r.kernels.Runs()
	runs = slices.DeleteFunc(runs, func(k executor.KernelRun) bool { return k.Name == "listen_and_serv" }) // it is the whole life of a pserver
	to.Trace(r.times.Trace(runs, lost, timing.RunsOf(r.roles)))
}
