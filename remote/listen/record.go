package listen

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen/supervise"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A record is what is known of a job: its status, its roles, its steps, and what its servers said last. Methods whose comment does not say otherwise
// want mu to be held.
type record struct {
	mu       sync.Mutex
	status   *job.JobStatus
	roles    *jobRun // while the job runs
	reports  reports
	reported error          // by the coordinator
	wanted   int32          // trainers, before the roles are started
	datasets []*rpc.Dataset // that the job reads, once they are known: every attempt must find the same

	profiled      bool // the job records its first steps; never changes
	tracesDropped bool

	// The steps of this attempt are numbered from begin on.
	begin uint64
	next  uint64 // step that comes next
	told  uint64 // steps below it were told by an earlier attempt
}

// withLock calls do while mu is held.
func (r *record) withLock(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

// role returns the entry of a role, making one where it belongs: coordinator, pservers, trainers.
func (r *record) role(m cluster.Member) *job.RoleStatus {
	s := &job.RoleStatus{Role: m.Role, Index: uint32(m.Index)}
	i, ok := slices.BinarySearchFunc(r.status.Roles, s, func(a, b *job.RoleStatus) int {
		if a.Role != b.Role {
			return int(a.Role) - int(b.Role)
		}
		return int(a.Index) - int(b.Index)
	})
	if !ok {
		r.status.Roles = slices.Insert(r.status.Roles, i, s)
	}
	return r.status.Roles[i]
}

// roleStarts notes that a process of a role is being started. It takes mu.
func (r *record) roleStarts(m cluster.Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.role(m)
	s.State, s.Pid, s.Address, s.Node, s.ExitCode, s.InStep = job.State_STARTING, 0, "", "", 0, false
	s.Starts++
	r.reports.startsAgain(m)
}

// roleRuns notes that a role has been started. It takes mu.
func (r *record) roleRuns(m cluster.Member, h launch.Handle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.role(m)
	s.State, s.Node, s.Pid = job.State_RUNNING, h.Node(), int32(h.Pid())
	r.reports.handles[m] = h
}

// roleEnds notes how a role has ended. A role that ends because another one is lost, for the next attempt of the job, or because the job has fewer pservers now,
// has not failed. It takes mu.
func (r *record) roleEnds(m cluster.Member, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.role(m)
	s.Pid, s.InStep = 0, false
	expected := false
	if r.roles != nil {
		_, another := r.roles.machine.Restarting()
		expected = another != nil || supervise.Surplus(r.roles.machine, m)
	}
	switch {
	case err != nil && expected:
		s.State, s.ExitCode = job.State_STOPPED, 0 // the last failure stays
		return
	case err == nil:
		s.State, s.ExitCode = job.State_SUCCEEDED, 0 // the last failure stays
		return
	case errors.Is(err, fault.Drained), errors.Is(err, fault.Canceled):
		s.State = job.State_STOPPED
	default:
		s.State = job.State_FAILED
	}
	s.Failure, s.ExitCode = wire.FailureOf(err), int32(fault.KindOf(err).ExitCode())
}

// replace notes that a process of another role is that of a role from now on. mu is held.
func (r *record) replace(m, by cluster.Member) {
	now, from := r.role(m), r.role(by)
	now.State, now.Pid, now.Node, now.Address, now.ExitCode = from.State, from.Pid, from.Node, from.Address, 0
	now.Starts++
	r.reports.startsAgain(m)
	r.reports.handles[m] = r.reports.handles[by]
	delete(r.reports.handles, by)
	from.State, from.Pid, from.Node, from.Address, from.InStep = job.State_PENDING, 0, "", "", false
}

// addStep takes over a step. told reports whether watchers are told of it, first whether it is the first of an attempt. A sync job has told a step
// that is known: a coordinator that was started again may report the last ones once more. An async coordinator counts from what is durable, so its
// steps are numbered here.
func (r *record) addStep(step *job.Step) (first, told bool) {
	if r.status.Mode != job.Mode_SYNC {
		step.Step = r.next
	}
	if step.Step < r.next {
		return false, false
	}
	step.Repeated = step.Step < r.told
	r.next = step.Step + 1
	first = r.status.State != job.State_RUNNING
	r.status.State = job.State_RUNNING
	step.Attempt, step.Resumed = r.status.Attempt, first && r.status.Attempt > 0
	if r.status.Records == 0 {
		r.status.Passes += step.Pass - r.status.FirstPass // the state may lie behind the end of its pass
		r.status.FirstPass = step.Pass
	}
	r.status.Pass, r.status.CompletePasses, r.status.Steps = step.Pass, step.Pass, r.next-r.begin
	r.status.Records += step.Rows
	r.status.Last = numbersOf(step)
	_, _ = r.roles.machine.Step(r.roles.now(), supervise.Progressed{})
	return first, true
}

// maxNumbers bounds the numbers of a step that a status has.
const maxNumbers = 16

// numbersOf returns what a step has fetched that is one number.
func numbersOf(step *job.Step) (numbers []*job.MetricValue) {
	var s tensor.Stream
	for _, v := range step.Fetched {
		if n, ok := wire.Scalar(&s, v); ok && len(numbers) < maxNumbers {
			numbers = append(numbers, &job.MetricValue{Name: v.Name, Value: n})
		}
	}
	return numbers
}

// addEvaluated takes over the outcome of an evaluation, and reports whether watchers are told of it: a coordinator that was started again may evaluate once more
// what was told.
func (r *record) addEvaluated(v *job.Evaluated) (told bool) {
	if last := r.status.Evaluated; last != nil && v.Step <= last.Step {
		return false
	}
	v.Attempt = r.status.Attempt
	r.status.Evaluated = v
	return true
}

// miss counts steps that nobody can report any more. In sync mode the number of the next step shows them.
func (r *record) miss(steps uint64) {
	if r.status.Mode != job.Mode_SYNC {
		r.next += steps
		r.status.Steps = r.next - r.begin
	}
}

// countTo counts the steps below a number as made, although nobody has told them.
func (r *record) countTo(steps uint64) {
	if steps > r.next {
		r.next = steps
		r.status.Steps = r.next - r.begin
	}
}

// startOver begins the next attempt, which has so many records behind it: what the last one has trained after that is gone.
func (r *record) startOver(restart *job.Progress, records int64) {
	r.goBack(restart, records)
	r.reports.forget()
}

// goBack is startOver where the processes stay, and with them what they have reported.
func (r *record) goBack(restart *job.Progress, records int64) {
	r.told = max(r.told, r.next)
	r.next, r.reported = max(r.begin, restart.GetSteps()), nil
	r.status.Attempt++
	r.status.Evaluated, r.status.Last = nil, nil
	r.status.Progress = restart
	r.status.Steps, r.status.Records, r.status.Pass, r.status.CompletePasses = r.next-r.begin, records, restart.GetPass(), restart.GetPass()
}

// serversRunning returns how often each server and standby that runs was started. It takes mu.
func (r *record) serversRunning() map[cluster.Member]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	servers := map[cluster.Member]int{}
	if r.roles == nil {
		return servers
	}
	for _, s := range r.roles.machine.Roles() {
		if s.Role != job.Role_TRAINER && s.State == supervise.Running {
			servers[s.Member] = s.Starts
		}
	}
	return servers
}

// addServer takes over what a pserver says of itself.
func (r *record) addServer(m cluster.Member, report *rpc.StatusResponse) {
	r.reports.servers[m.Index] = report
	if report.Standby != rpc.StatusResponse_NONE {
		r.role(cluster.Member{Role: job.Role_STANDBY, Index: m.Index}).InStep = report.Standby == rpc.StatusResponse_IN_STEP
	}
	s := r.role(m)
	s.Waiting = ""
	for _, w := range report.Waits {
		s.Waiting = w.What
	}
	r.reports.refused[m.Index] = 0
	for _, n := range report.Refused {
		r.reports.refused[m.Index] += n
	}
	r.status.Refused = 0
	for _, n := range r.reports.refused {
		r.status.Refused += n
	}
}

// paused says why the job does not go on now, empty when it does. The coordinator knows best, unless it is the one that is missing.
func (r *record) paused() string {
	if r.roles == nil {
		return ""
	}
	if suspended, _ := supervise.IsSuspended(r.roles.machine); suspended {
		if r.status.State == job.State_WAITING {
			return ""
		}
		return "the job is being suspended"
	}
	if _, cause := r.roles.machine.Restarting(); supervise.Resizes(cause) {
		return fmt.Sprintf("the job starts again %s, with another number of pservers", r.restartsFrom())
	} else if cause != nil {
		return fmt.Sprintf("the job starts over %s, because parameters are lost: %v", r.restartsFrom(), cause)
	}
	if cause := r.roles.machine.GoesBack(); cause != nil {
		return fmt.Sprintf("the job goes back to its last checkpoint, because parameters are lost: %v", cause)
	}
	roles := r.roles.machine.Roles()
	for _, s := range roles {
		if s.Role != job.Role_TRAINER && s.Lost {
			return fmt.Sprintf("%v has lost its lease", s.Member)
		}
	}
	for _, s := range roles {
		if s.Role != job.Role_TRAINER && s.State == supervise.Down {
			return downText(s)
		}
	}
	for _, s := range roles {
		if silence, ok := r.reports.silent[s.Member]; ok && s.State == supervise.Running {
			return fmt.Sprintf("%v has not answered since %s", s.Member, silence.since.Format(time.TimeOnly))
		}
	}
	q := r.reports.queues
	if q == nil || q.Phase == "" || q.Phase == "running" || q.Phase == "ending" {
		return ""
	}
	switch {
	case len(q.Waits) == 0:
		return q.Phase
	case q.Phase == "paused":
		return sentence(q.Waits[0])
	}
	return q.Phase + ": " + sentence(q.Waits[0])
}

// dry says which files a job waits for all of whose trainers wait for new ones, and since when; empty where one does not, or nobody knows. Of many trainers the
// coordinator lists the waits of some. mu is held.
func dry(r *record) string {
	q := r.reports.queues
	if _, silent := r.reports.silent[cluster.Member{Role: job.Role_COORDINATOR}]; silent || r.roles == nil || len(q.GetMembers()) == 0 {
		return ""
	}
	var last *job.Wait // that has begun
	listed := 0
	for _, w := range q.Waits {
		if w.Dataset == "" {
			continue
		}
		listed++
		if last == nil || w.Since.AsTime().After(last.Since.AsTime()) {
			last = w
		}
	}
	if listed == 0 || listed < len(q.Members) && len(q.Waits) < waits.MaxListed {
		return ""
	}
	return fmt.Sprintf("%s, since %s", last.What, last.Since.AsTime().Local().Format(time.DateTime))
}

// restartsFrom says where the next attempt begins: at the last checkpoint that is known, or where this attempt began.
func (r *record) restartsFrom() string {
	steps := r.status.Progress.GetSteps()
	if last := r.reports.queues.GetCheckpoint(); last.GetName() != "" {
		steps = max(steps, last.Steps)
	}
	if steps == 0 {
		return "from its beginning"
	}
	return fmt.Sprintf("from its state after %d steps", steps)
}

// downText says why a server that the job needs does not run. One that never failed is new, or a standby whose process has become its pserver.
func downText(s supervise.Role) string {
	switch {
	case s.Last != nil:
		return fmt.Sprintf("%v has ended and is started again: %v", s.Member, s.Last)
	case s.Starts == 0:
		return fmt.Sprintf("%v is started", s.Member)
	case s.Role == job.Role_STANDBY:
		return fmt.Sprintf("%v has taken the place of its pserver, and another one is started", s.Member)
	}
	return fmt.Sprintf("%v is started again", s.Member)
}

// trainersWait returns what the running trainers say that they wait for. A trainer is left out if a server has said more of its wait.
func (r *record) trainersWait(told []*job.Wait) (waits []*job.Wait) {
	servers := map[string]bool{} // that have said what they wait for
	for _, w := range told {
		servers[w.Who] = true
	}
	for _, s := range r.roles.machine.Roles() {
		if s.State != supervise.Running || servers[s.Member.String()] {
			continue
		}
		var list []*job.Wait
		if h := r.reports.handles[s.Member]; h != nil {
			list, _ = h.Waits()
		}
		for _, w := range list {
			w = proto.Clone(w).(*job.Wait)
			w.Who = s.Member.String()
			waits = append(waits, w)
		}
	}
	return waits
}

// silences returns which servers do not answer.
func (r *record) silences() (waits []*job.Wait) {
	for _, s := range r.roles.machine.Roles() {
		if silence, ok := r.reports.silent[s.Member]; ok && s.State == supervise.Running && !s.Lost {
			waits = append(waits, &job.Wait{Who: supervisor, What: "an answer of " + s.Member.String(), By: []string{s.Member.String()},
				Since: timestamppb.New(silence.since), LastError: silence.err.Error()})
		}
	}
	return waits
}
