package operator

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Job is what the listener knows of the job of a TrainingJob.
type Job struct {
	Name      string
	State     string // the word of edl jobs
	Ended     bool
	Succeeded bool
	Suspended bool  // it has no pods, and waits until it is resumed, or until there is room
	Restarts  bool  // it has ended because its listener has, and can go on from a checkpoint
	Running   int32 // trainers that run
	Steps     int64
	Records   int64
	Progress  *int32
	TimeLeft  *string
	Loss      *string
	Message   string // what it waits for, or why it has ended before its time
	Waits     []Wait
	Saved     *string // its last checkpoint, as STORE@STEPS
	Gone      int     // starts of roles that have ended
	Submitted time.Time
	Ends      time.Time
}

// Observed is all that a decision is made from.
type Observed struct {
	Now      time.Time
	Resource *TrainingJob
	Job      *Job   // nil: the listener knows none
	Refusal  string // why the last thing that was tried has failed; empty: it has not
	Refused  bool   // it was to submit the job, and another attempt would fail, too
}

// A Verb is what to do.
type Verb string

// Verbs. After each the caller decides anew, but for Nothing.
const (
	Nothing  Verb = ""
	Protect  Verb = "add the finalizer"
	Release  Verb = "remove the finalizer"
	Hold     Verb = "set spec.suspend"
	Submit   Verb = "submit"
	Stop     Verb = "stop"
	Suspend  Verb = "suspend"
	Resume   Verb = "resume"
	GoOn     Verb = "go on from the last checkpoint"
	Scale    Verb = "scale"
	Delete   Verb = "delete"
	lookSoon      = 2 * time.Second // how often a job that has not ended is looked at
	tellSoon      = 5 * time.Second // how often numbers of a status are written that change all the time
)

// A Decision is what to do now, in this order.
type Decision struct {
	Verb     Verb
	Trainers int32         // of Scale
	Status   *Status       // to write; nil: it stays as it is
	After    time.Duration // when to look again; 0: when the resource changes
}

// Decide says what to do for a TrainingJob. It is a pure function.
func Decide(o Observed) Decision {
	t, j := o.Resource, o.Job
	ours := slices.Contains(t.Finalizers, Finalizer)
	switch {
	case t.DeletionTimestamp != nil && !ours:
		return Decision{}
	case t.DeletionTimestamp != nil && j != nil && !j.Ended:
		return Decision{Verb: Stop, After: lookSoon}
	case t.DeletionTimestamp != nil:
		return Decision{Verb: Release}
	case t.Status.finished():
		return afterEnd(o, ours)
	case !ours:
		return Decision{Verb: Protect}
	case t.queue() != "" && !t.Spec.Suspend && t.Status.condition(Created) == nil && t.Status.condition(Suspended) == nil:
		return Decision{Verb: Hold}
	}
	d := Decision{After: lookSoon}
	switch {
	case j == nil && o.Refused:
	case j == nil && t.Spec.Suspend:
		d.After = 0
	case j == nil && t.Status.is(Created): // it has not vanished well: nobody knows what it has trained
	case j == nil:
		d.Verb = Submit
	case j.Restarts && !t.Spec.Suspend:
		d.Verb = GoOn
	case j.Ended:
	case t.Spec.Suspend && !held(t, j):
		d.Verb = Suspend
	case !t.Spec.Suspend && held(t, j):
		d.Verb = Resume
	case t.Spec.Replicas != asked(t, j) && t.Spec.Replicas > 0 && !j.Suspended:
		d.Verb, d.Trainers = Scale, t.Spec.Replicas
	}
	next := status(o)
	if d.Verb == Scale {
		next.Asked = d.Trainers
	}
	if next.finished() {
		d.After = 0
	}
	if worthTelling(&t.Status, next, o.Now) {
		d.Status = next
	}
	return d
}

// held reports whether a job is suspended because its resource says so. One that is suspended for another job is not: it goes on by itself.
func held(t *TrainingJob, j *Job) bool {
	c := t.Status.condition(Suspended)
	return j.Suspended && c != nil && c.Status == metav1.ConditionTrue && c.Reason != makesRoom
}

// asked is how many trainers the job was told to have.
func asked(t *TrainingJob, j *Job) int32 {
	if t.Status.Job != j.Name { // it is another one since
		return 0
	}
	return t.Status.Asked
}

// afterEnd is Decide for a job that has ended: it needs no protection, and is deleted when its time is over.
func afterEnd(o Observed, ours bool) Decision {
	t := o.Resource
	if ours {
		return Decision{Verb: Release}
	}
	if t.Spec.TTLSecondsAfterFinished == nil || t.Status.CompletionTime == nil {
		return Decision{}
	}
	if left := t.Status.CompletionTime.Add(time.Duration(*t.Spec.TTLSecondsAfterFinished) * time.Second).Sub(o.Now); left > 0 {
		return Decision{After: left}
	}
	return Decision{Verb: Delete}
}

// status is what the status is to say now.
func status(o Observed) *Status {
	t, j, now := o.Resource, o.Job, metav1.NewTime(o.Now.Truncate(time.Second))
	s := t.Status
	s.Conditions = slices.Clone(s.Conditions)
	generation := t.Generation
	s.ObservedGeneration, s.UpdateTime, s.Refused = generation, &now, text(o.Refusal)
	end := func(of, reason, message string, at time.Time) {
		s.unset(Running, reason, generation, now)
		s.unset(Suspended, reason, generation, now)
		s.set(of, reason, message, generation, now)
		done := metav1.NewTime(at.Truncate(time.Second))
		if at.IsZero() {
			done = now
		}
		s.CompletionTime, s.Trainers, s.TimeLeft, s.Waits, s.State = &done, 0, nil, nil, of
	}
	if j == nil {
		s.Trainers, s.TimeLeft, s.Waits, s.State, s.Message = 0, nil, nil, "Pending", text(o.Refusal)
		switch {
		case o.Refused:
			end(Failed, "Refused", o.Refusal, o.Now)
		case t.Spec.Suspend:
			s.State = Suspended
			s.set(Suspended, suspender(t), "", generation, now)
		case s.is(Created):
			end(Failed, "Lost", "the listener does not know the job any more", o.Now)
			s.Message = text("the listener does not know the job any more")
		default:
			s.unset(Suspended, "Resumed", generation, now)
		}
		return &s
	}
	if s.Job != j.Name {
		s.Asked = 0
	}
	s.Job, s.Trainers, s.Steps, s.Records = j.Name, j.Running, j.Steps, j.Records
	s.Progress, s.TimeLeft, s.State, s.Message = j.Progress, j.TimeLeft, j.State, text(cmp.Or(j.Message, o.Refusal))
	s.Waits = j.Waits
	if j.Saved != nil {
		s.Checkpoint = j.Saved
	}
	s.Steps = max(s.Steps, s.CheckpointSteps()) // a listener that has taken the job over just now knows fewer
	if j.Loss != nil {
		s.Loss = j.Loss
	}
	if s.StartTime == nil {
		started := metav1.NewTime(j.Submitted.Truncate(time.Second))
		s.StartTime = &started
	}
	if !s.is(Created) {
		s.set(Created, "Submitted", "", generation, now)
	}
	switch {
	case j.Restarts:
		s.unset(Running, "ListenerEnded", generation, now)
		if t.Spec.Suspend {
			s.set(Suspended, suspender(t), "", generation, now)
		}
	case j.Succeeded:
		hundred := int32(100)
		s.Progress = &hundred
		end(Complete, "Succeeded", "", j.Ends)
	case j.Ended:
		reason := "Failed"
		if j.State == "stopped" {
			reason = "Stopped"
		}
		end(Failed, reason, j.Message, j.Ends)
	case j.Suspended:
		s.unset(Running, "Suspended", generation, now)
		s.set(Suspended, suspender(t), j.Message, generation, now)
	case j.Running > 0:
		s.unset(Suspended, "Resumed", generation, now)
		s.set(Running, "Training", "", generation, now)
	default:
		s.unset(Suspended, "Resumed", generation, now)
		s.unset(Running, "Waiting", generation, now)
	}
	return &s
}

// makesRoom is the reason of a job that is suspended for one of a higher priority.
const makesRoom = "MakesRoom"

// suspender says for whom a job is suspended.
func suspender(t *TrainingJob) string {
	switch {
	case !t.Spec.Suspend:
		return makesRoom
	case t.queue() != "":
		return "Queued"
	}
	return "Asked"
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	s = shortened(s)
	return &s
}

// worthTelling reports whether a status is to be written: at once where it has another state, and from time to time where numbers have changed.
func worthTelling(have, next *Status, now time.Time) bool {
	if have.State != next.State || !same(have.Refused, next.Refused) || have.ObservedGeneration != next.ObservedGeneration || have.Job != next.Job || have.Trainers != next.Trainers || have.Asked != next.Asked ||
		!slices.Equal(have.Conditions, next.Conditions) {
		return true
	}
	numbers := have.Steps != next.Steps || have.Records != next.Records || !same(have.Progress, next.Progress) || !same(have.TimeLeft, next.TimeLeft) ||
		!same(have.Loss, next.Loss) || !same(have.Message, next.Message) || !same(have.Checkpoint, next.Checkpoint) || !slices.EqualFunc(have.Waits, next.Waits, Wait.equal)
	return numbers && (have.UpdateTime == nil || now.Sub(have.UpdateTime.Time) >= tellSoon)
}

func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// equal reports whether a wait goes on. Its begin is not compared: the API server keeps whole seconds.
func (w Wait) equal(o Wait) bool {
	return w.Who == o.Who && w.What == o.What && w.LastError == o.LastError && slices.Equal(w.By, o.By)
}
