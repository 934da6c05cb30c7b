package listen

import (
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/wire"
)

// enterStep takes over a step, and reports whether it is told on, and is the first after the job began, or began again. One that is known already is
// not: in sync mode a coordinator that was started again may tell the last ones once more. In async mode it counts from what is durable, and its
// steps are numbered on. j.mu is held.
func (j *Job) enterStep(step *job.Step) (first, told bool) {
	if j.spec.Mode != job.Mode_SYNC {
		step.Step = j.next
	}
	if step.Step < j.next {
		return false, false
	}
	j.next = step.Step + 1
	first = j.status.State != job.State_RUNNING
	j.status.State = job.State_RUNNING
	j.status.Pass, j.status.Steps = step.Pass, j.next
	j.status.Records += step.Rows
	j.crew.machine.Progress()
	return first, true
}

// miss counts steps that are not told on. In sync mode the number of the next one does. j.mu is held.
func (j *Job) miss(steps uint64) {
	if j.spec.Mode != job.Mode_SYNC {
		j.next += steps
		j.status.Steps = j.next
	}
}

// beginAnew forgets what the history that has ended had trained, and what its servers have said.
func (j *Job) beginAnew(cause error, servers ...interface{ forget() }) {
	j.mu.Lock()
	j.status.Steps, j.status.Records, j.status.Pass, j.next, j.reported = 0, 0, 0, 0, nil
	j.known.forget()
	for _, s := range servers {
		s.forget()
	}
	j.mu.Unlock()
	j.manager.cfg.Log.Warn("the job begins again", "job", j.ID, "because", cause)
	j.setState(job.State_STARTING, nil)
}

// setState enters another state and tells it.
func (j *Job) setState(state job.State, err error) {
	j.mu.Lock()
	j.status.State, j.status.Failure = state, wire.FailureOf(err)
	s := proto.Clone(j.status).(*job.JobStatus)
	j.mu.Unlock()
	j.events.Add(&job.Event{What: &job.Event_Status{Status: s}})
	log := j.manager.cfg.Log.With("job", j.ID, "state", state)
	if err != nil {
		log.Info("job", "error", err)
		return
	}
	log.Info("job")
}
