package jobspec

import (
	"time"

	"github.com/edl-go/edl/proto/job"
)

// Deadlines are all time limits of a job. DeadlinesOf derives them from the three durations of its JobSpec (lease, start_deadline, round_deadline),
// so that they stand in the right order to each other, whatever the user says:
//
//   - Whoever knows more gives up first. The coordinator knows which trainer is missing, so it ends a job before the pservers do, and they before the
//     trainers. Each waits one margin longer than the one before, so the error that the user sees names the member that is missing.
//   - A role that is asked to stop ends before the caller kills it. A role's last message and the end of its calls fit into the time that the listener
//     gives it; a role's own drain fits into the time that its launcher gives it.
//   - Whoever asks a listener waits no longer than a second, so the listener asks the servers of a job for less.
//
// TestDeadlinesInOrder holds these orders.
type Deadlines struct {
	// Lease is how long etcd keeps the key of a role that does not renew its lease. Then the coordinator freezes the job, and the listener ends the role.
	Lease time.Duration
	// LeaseCheck is how often the listener looks whether a role that runs still has its lease. It is a small part of the lease, so that a loss is
	// told about when it happens, and not below 100 ms, because each look reads the keys of all members.
	LeaseCheck time.Duration

	// Start is the user's start_deadline. The listener waits so long for the registry to take the keys of a new job, and a role for it to tell what
	// it begins with. When it passes, the job fails.
	Start time.Duration
	// Gather is how long the coordinator waits for trainers and pservers of the first generation. When it passes, the job goes on with
	// fewer trainers if its spec allows that, else it fails and the error names the missing members. Start and a margin: a role that cannot reach the
	// registry reports that first.
	Gather time.Duration
	// Connect is how long a trainer waits for the address of the coordinator. When it passes, the trainer ends and is started again. Start and a
	// margin, as for Gather.
	Connect time.Duration
	// Idle is how long a pserver waits for a coordinator to begin a generation, or to release it when all trainers have left. When it passes, the
	// pserver fails the job, or ends in order if all is trained. One margin more than Gather: the coordinator knows who is missing.
	Idle time.Duration

	// Round is the user's round_deadline. A pserver waits so long between the first contribution to a round and the last, and for the partial sums of
	// other pservers. When it passes, the job fails and the error names the missing trainers.
	Round time.Duration
	// TrainerRound is how long a trainer waits for the answer to one call about a round. When it passes, the trainer ends. Two margins more than
	// Round: the pserver fails first, because it knows who is missing, and its answer needs time to arrive.
	TrainerRound time.Duration
	// Rejoin is how long the coordinator waits for the members of the last generation to join the next one. When it passes, it begins without those
	// that are missing. As long as Round: a trainer that computes longer than that could not train with the others anyway.
	Rejoin time.Duration
	// Unavailable is how long a trainer calls a coordinator or pserver again that does not answer. When it passes, the trainer ends and is started
	// again. Round and Start together: the listener has so long to start the other one again, while a round was under way.
	Unavailable time.Duration

	// DataSilence is how long the machine of a peer may leave a data connection over TCP without an answer, and how long it may take to connect. When it
	// passes, that end closes the connection, and the trainer opens another one. In whole seconds, as kernels have it. A third of Round, so that the round
	// survives, but no more than 5 and no less than 2 seconds.
	DataSilence time.Duration

	// Follower is how long a job with max_ahead goes on without a follower that acknowledges its steps, and a fed job without a client that lives. When
	// it passes, the job fails; a fed job has as long again to end in good order. As long as Start: a client has as much time to come back as a role to
	// start.
	Follower time.Duration

	// TaskMin and TaskMax bound the time for which a trainer may have a task in async mode. When it passes, the task goes to another trainer.
	TaskMin, TaskMax time.Duration

	// Drain is how long the listener waits for a trainer that the job does not want any more. When it passes, the trainer is killed. As long as
	// Round: the trainer finishes the round that it is in.
	Drain time.Duration
	// DrainGrace is what the listener tells the launcher of such a trainer. More than Drain: the listener kills first, and notes that it has.
	DrainGrace time.Duration
	// RoleDrain is how long a role goes on after it was asked to end in order. When it passes, the role ends at once. Less than LauncherStop, so that
	// the role still says how it ends.
	RoleDrain time.Duration

	// ServerDrain is how long a pserver that was asked to end, and has no standby, waits for a checkpoint of what it has. When it passes, the pserver ends without
	// one. Together with the end of its calls less than NodeStop, which is what pods give it: where the launcher gives less, the launcher kills it.
	ServerDrain time.Duration

	// StopGrace is how long a role has when its whole job is stopped. When it passes, the role is killed. It covers Leave and ServerGrace, the two
	// things that a role does after it has stopped working.
	StopGrace time.Duration
	// Leave bounds the last message of a trainer that ends before its work is done. When it passes, the coordinator hears of the end from the
	// registry.
	Leave time.Duration
	// Seek is how long a trainer that has done all its work looks for a coordinator that is gone. When it passes, the trainer ends, and the next
	// coordinator learns from the pservers that its work is done.
	Seek time.Duration
	// ServerGrace is how long a coordinator or pserver that ends lets calls in flight finish. When it passes, they fail as unavailable.
	ServerGrace time.Duration
	// Linger is how long a coordinator whose job has ended waits for the listener to read the last steps. When it passes, it ends, and the listener
	// may miss them.
	Linger time.Duration
	// LastReports is how long the listener waits, when all roles have ended, for the next of what they reported. When it passes and nothing has come, the status of the
	// job is what was heard until then. Nobody is left to send more, so it covers only what is on its way.
	LastReports time.Duration
	// LostLease is how long a role whose lease is lost has to end by itself. When it passes, it is killed, because its place is wanted by its next
	// start.
	LostLease time.Duration
	// Release is how long a pserver has to end by itself when the coordinator has ended well. When it passes, it is killed; the job has succeeded.
	Release time.Duration

	// NodeStop is how long a role on another node has to end when its listener has asked for it. When it passes, the node kills it. Far more than every
	// grace of a listener: a listener with less patience breaks the stream, and then the role has LauncherStop.
	NodeStop time.Duration
	// LauncherStop is how long a launcher gives a role to end when the context that it was started with ends. Then the role is killed.
	LauncherStop time.Duration
	// LauncherKill bounds the wait for the end of a role that was killed, where its end cannot be forced or seen. When it passes, the role is given
	// up.
	LauncherKill time.Duration
	// Output bounds the wait for the rest of the log and of the reports of a role that has ended. When it passes, the launcher closes the pipes: a child
	// of the role may hold them open.
	Output time.Duration
	// LastReport bounds the wait of a role that ends for its launcher to read how. When it passes, the role ends unheard. Less than RoleDrain, as a role
	// that drains reports last.
	LastReport time.Duration
	// NodeStart bounds the wait for a node to say that it has started a role. When it passes, the next node is asked.
	NodeStart time.Duration

	// WaitReported is how long a role has waited for something when it reports the wait to its launcher, and WaitLogged when it logs the wait, and again
	// after so long as the wait goes on. WaitEvery is how often it looks for changes of what it reports.
	WaitReported, WaitLogged, WaitEvery time.Duration

	// Registry bounds one change of the registry that the listener makes beside its roles. When it passes, the change is logged as left undone, or
	// the attempt of the job fails.
	Registry time.Duration
	// Ledger bounds a question of the coordinator to pserver 0 about the records that are trained. When it passes, the question is asked again later.
	Ledger time.Duration
	// Probe bounds the answer of a server that the listener asks how it is. When it passes, the server counts as silent. Less than a second, because
	// clients of the listener wait no longer than that.
	Probe time.Duration
	// ProbeEvery is how often the listener asks each server.
	ProbeEvery time.Duration
	// Entries bounds the reading of all durable entries of a coordinator, which may be millions.
	Entries time.Duration
	// Follow is how often the coordinator lists the files of a dataset that grows.
	Follow time.Duration
	// Report is how long a step may wait for others at the trainer that reports it, so that they go in one message, and Tell is the same at the
	// coordinator and at the listener. A step that comes after a pause waits for none. Report and twice Tell are less than the 100 ms within which a
	// terminal shows a step, also where each comes 4 ms late (launch.timerSlack). Report grows with the number of trainers: all of them together send about 1000 messages a second at most, as long as
	// there are no more than 45. Both are 0 in a fed job, whose user waits for each step, and in a job whose trainers may soon wait until their user
	// has heard of the step.
	Report, Tell time.Duration
}

// tellEvery is Deadlines.Tell for jobs that do not wait for their user, or may be at least farAhead rounds ahead of them. Deadlines.Report is between
// tellEvery and reportLatest there.
const (
	tellEvery    = 20 * time.Millisecond
	reportLatest = 45 * time.Millisecond
	farAhead     = 256
)

// margin is how much longer the next one waits where several wait for the same thing: enough for an error to travel.
const margin = 2 * time.Second

// DeadlinesOf returns the time limits of a job. What spec leaves open has its default.
func DeadlinesOf(spec *job.JobSpec) Deadlines {
	start, round := orDefault(spec.GetStartDeadline(), defaultStart).AsDuration(), orDefault(spec.GetRoundDeadline(), defaultRound).AsDuration()
	lease := orDefault(spec.GetLease(), defaultLease).AsDuration()
	taskMin := orDefault(spec.GetMinTaskTimeout(), round).AsDuration()
	d := Deadlines{
		Lease: lease, LeaseCheck: max(100*time.Millisecond, lease/8),
		Start: start, Gather: start + margin, Connect: start + margin, Idle: start + 2*margin,
		Round: round, TrainerRound: round + 2*margin, Rejoin: round, Unavailable: round + start, Follower: start,
		TaskMin: taskMin, TaskMax: orDefault(spec.GetMaxTaskTimeout(), max(20*round, taskMin)).AsDuration(),
		RoleDrain: 4 * time.Second, ServerDrain: 50 * time.Second, Leave: time.Second, ServerGrace: 2 * time.Second, StopGrace: 3 * time.Second,
		Seek: 5 * time.Second, Linger: time.Second, LastReports: time.Second, LostLease: time.Second, Release: 10 * time.Second,
		NodeStop: time.Minute, LauncherStop: 5 * time.Second, LauncherKill: 2 * time.Second, NodeStart: 10 * time.Second,
		Output: 2 * time.Second, LastReport: time.Second,
		WaitReported: 3 * time.Second, WaitLogged: 10 * time.Second, WaitEvery: time.Second,
		Registry: 5 * time.Second, Ledger: 10 * time.Second, Probe: 700 * time.Millisecond, ProbeEvery: time.Second, Entries: time.Minute,
		Follow: time.Second,
	}
	d.DataSilence = min(5*time.Second, max(2*time.Second, (round/3).Truncate(time.Second)))
	d.Drain, d.DrainGrace = round, round+d.StopGrace
	if n := spec.GetMaxAhead(); !spec.GetFed() && (n == 0 || n >= farAhead) {
		d.Tell = tellEvery
		trainers := max(spec.GetTrainers(), spec.GetTrainersMax())
		d.Report = min(max(tellEvery, time.Duration(trainers)*time.Millisecond), reportLatest)
	}
	return d
}

// OrFailure is how long the listener waits for the reason why a job has failed, when a coordinator that has just gone is the first sign: until the
// lease of another role may have ended, its roles have stopped, and the registry is told.
func (d Deadlines) OrFailure() time.Duration { return d.Lease + d.StopGrace + d.Registry }
