package remote

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// An evaluating is how jobs of an executor are evaluated while they train, and who is told.
type evaluating struct {
	spec *job.Evaluation
	each func(*job.Evaluated) error
}

// EvaluateWith lets the trainers of each job that Train or Submit submits from now on evaluate held-back data while they train, as spec says; nil: they evaluate nothing.
// Globs are absolute paths, or URLs. each is called in Train, or Follow, as its callback is, with each outcome: behind the callback of the step before it, and before that
// of the next one. If spec.Waits is set, the job does not go on before each has returned: calls from it in Train may then read the state after that step, and when it
// returns executor.ErrStop, that step is the last one. jobspec.NotByTrainers says which jobs cannot be evaluated so. Call it before Train and Submit.
func (e *Executor) EvaluateWith(spec *job.Evaluation, each func(*job.Evaluated) error) {
	e.evaluates = evaluating{proto.CloneOf(spec), each}
}

// OnEvaluated lets Follow call each with the outcome of each evaluation that the listener still has, in the order of steps. Call it before Follow. A job that AttachJob
// returns does not wait for each.
func (j *Job) OnEvaluated(each func(*job.Evaluated) error) { j.evaluated = each }

// give makes the evaluation that of a job that is submitted.
func (v evaluating) give(spec *JobSpec) {
	if v.spec != nil {
		spec.Evaluation = proto.CloneOf(v.spec)
	}
}

// tellEvaluated makes a callback of Train of each, which notes after which step it is called.
func (t *training) tellEvaluated(by *turns, each func(*job.Evaluated) error) func(*job.Evaluated) error {
	if each == nil {
		return nil
	}
	return during(by, func(v *job.Evaluated) error {
		t.attempt, t.step, t.evaluated = int(v.Attempt), v.Step, true
		defer func() { t.evaluated = false }()
		return each(v)
	})
}

// takeEvaluated tells the outcome of an evaluation, and acknowledges it.
func (f *follower) takeEvaluated(ctx context.Context, v *job.Evaluated) error {
	if f.job.evaluated == nil || v.Attempt != f.attempt {
		return nil
	}
	f.last = &v.Step
	if err := f.job.evaluated(v); err != nil {
		return err
	}
	f.last = nil
	if !f.job.waits {
		return nil
	}
	f.judged = v.Step + 1
	return f.acknowledge(ctx)
}

// acknowledge tells the job how far its follower has come.
func (f *follower) acknowledge(ctx context.Context) error {
	m := &rpc.AcknowledgeRequest{Job: f.job.ID, Attempt: f.attempt, Evaluated: f.judged}
	if f.job.ahead {
		m.Steps = f.done
	}
	return acknowledge(ctx, f.job.client, m)
}

// needsFollower reports whether a job waits for its follower, after each step or each evaluation.
func (j *Job) needsFollower() bool { return j.ahead || j.waits }
