package jobspec

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/timing"
)

// Limits of a job: far above useful values, and low enough that a mistake or an attack costs little.
const (
	maxTrainers   = 4096
	MaxPServers   = 1024
	maxPasses     = 1 << 20
	maxFetch      = 4096 // names: each is a value of each step, and may be a line of an error
	maxWorkers    = 1024
	maxDevices    = 64
	minCheckpoint = 100 * time.Millisecond // between two
	maxCount      = 1 << 20                // restarts of a role, failures of a task
	maxStaleness  = 1 << 20                // pushes
	maxPriority   = 100
	maxMillicores = 1 << 20              // of a role
	maxMemory     = 1 << 44              // of a role
	maxEvery      = 1000                 // steps between two pushes or pulls: the records of a push travel in one message
	maxDuration   = 366 * 24 * time.Hour // roles add to durations and multiply them: a sum that overflows would be over at once
)

// Check reports every mistake of a complete spec.
func Check(s *job.JobSpec) error {
	var c checker
	c.names(s)
	c.shape(s)
	c.forms(s)
	c.rhythm(s)
	if got, want := wrongEvaluation(s); got != "" {
		c.wrong("evaluation", got, want)
	}
	c.backups(s)
	c.standby(s)
	c.checkpoints(s)
	c.data(s)
	c.durations(s)
	return c.faults.Err()
}

// A checker collects the mistakes of one spec.
type checker struct{ faults fault.List }

// wrong adds a mistake in a field.
func (c *checker) wrong(field, got, want string) {
	c.faults.Add(fault.E(fault.InvalidArgument, fault.At("job"), fault.Got(field+" "+got), fault.Want(want)))
}

// within adds a mistake unless n is one of least to most.
func (c *checker) within(field string, n, least, most int64) {
	if n < least || n > most {
		c.wrong(field, fmt.Sprint(n), fmt.Sprintf("%d to %d", least, most))
	}
}

// names checks how a job is called, queued and run: its name, labels, priority, queue, pods, and what its roles need.
func (c *checker) names(s *job.JobSpec) {
	if s.Name != "" && !IsName(s.Name) {
		c.wrong("name", fault.Quote(s.Name), "up to 63 lower-case letters, digits and '-', other than "+reservedName)
	}
	if s.Namespace != "" && !credential.IsNamespace(s.Namespace) {
		c.wrong("namespace", fault.Quote(s.Namespace), credential.NamespaceForm)
	}
	if err := wrongLabels(s.Labels); err != nil {
		c.faults.Add(err)
	}
	c.within("priority", int64(s.Priority), -maxPriority, maxPriority)
	if s.Queue != "" && !objectName.MatchString(s.Queue) {
		c.wrong("queue", fault.Quote(s.Queue), "the name of an object of Kubernetes")
	}
	for field, p := range podsOf(s) {
		if err := wrongPod(field, p); err != nil {
			c.faults.Add(err)
		}
	}
	for field, n := range map[string]*job.Needs{"trainer": s.TrainerNeeds, "pserver": s.PserverNeeds} {
		c.within(field+"_cores, in thousandths,", n.GetMillicores(), 0, maxMillicores)
		c.within(field+" memory, in bytes,", n.GetMemory(), 0, maxMemory)
	}
}

// shape checks how many roles a job has.
func (c *checker) shape(s *job.JobSpec) {
	c.within("trainers", int64(s.Trainers), 1, maxTrainers)
	if s.Trainers <= maxTrainers { // else trainers_max may be what Complete has made of it
		c.within("trainers_max", int64(s.TrainersMax), int64(s.Trainers), maxTrainers)
	}
	c.within("pservers_max", int64(s.PserversMax), 0, MaxPServers)
	c.within("pservers_min", int64(s.PserversMin), 0, int64(s.PserversMax))
	least, most := PserverBounds(s)
	c.within("pservers", int64(s.Pservers), int64(least), int64(most))
	if got, want := FixedPservers(s); s.PserversMax > 0 && got != "" {
		c.wrong("pservers_max", got, want+", or one number of pservers")
	}
}

// forms checks what a job counts, how it is cut, and the forms in which values travel.
func (c *checker) forms(s *job.JobSpec) {
	c.within("fetch", int64(len(s.Fetch)), 0, maxFetch)
	c.within("passes", int64(s.Passes), 0, maxPasses)
	c.within("workers", int64(s.Workers), 1, maxWorkers)
	c.within("devices", int64(cmp.Or(s.Devices, 1)), 1, maxDevices)
	c.within("min_block_size", s.MinBlockSize, 1, 1<<40)
	c.within("records_per_task", s.RecordsPerTask, 0, 1<<40)
	c.within("profile_steps", int64(s.ProfileSteps), 0, timing.MaxSteps)
	c.within("max_ahead", int64(s.MaxAhead), 0, math.MaxInt32)
	c.within("max_restarts", int64(s.MaxRestarts), -maxCount, maxCount)
	c.within("max_task_failures", int64(s.MaxTaskFailures), 1, maxCount)
	if _, ok := job.Mode_name[int32(s.Mode)]; !ok {
		c.wrong("mode", fmt.Sprint(s.Mode), "sync or async")
	}
	if s.SplitMethod != "round_robin" && s.SplitMethod != "hash_name" {
		c.wrong("split_method", fault.Quote(s.SplitMethod), "round_robin or hash_name")
	}
	if _, err := compress.ParseGradients(s.CompressGradients); err != nil {
		c.wrong("compress_gradients", fault.Quote(s.CompressGradients), compress.GradientForms)
	}
	if _, err := compress.ParseParameters(s.CompressParameters); err != nil {
		c.wrong("compress_parameters", fault.Quote(s.CompressParameters), compress.ParameterForms)
	}
	if _, ok := job.Transport_name[int32(s.Transport)]; !ok {
		c.wrong("transport", fmt.Sprint(s.Transport), "one of "+strings.Join(Transports(), ", "))
	}
}

// rhythm checks how often trainers push and pull, how far one may run ahead, and whether those of one host merge.
func (c *checker) rhythm(s *job.JobSpec) {
	c.within("day_rounds", s.DayRounds, 0, 1<<40)
	c.within("push_every", int64(s.PushEvery), 0, maxEvery)
	c.within("pull_every", int64(s.PullEvery), 0, maxEvery)
	for field, every := range map[string]int32{"push_every": s.PushEvery, "pull_every": s.PullEvery} {
		if every > 1 && s.Mode == job.Mode_SYNC {
			c.wrong(field, fmt.Sprintf("%d in sync mode", every), "async mode, whose trainers do not wait for rounds")
		}
	}
	if s.Staleness != nil {
		c.within("staleness", int64(*s.Staleness), 0, maxStaleness)
		if s.Mode == job.Mode_SYNC {
			c.wrong("staleness", fmt.Sprintf("%d in sync mode", *s.Staleness), "async mode: the trainers of a sync job wait for each other in each round")
		}
	}
	if s.PushEvery > 1 && compresses(s) { // sums are made of whole gradients, and servers round parameters when they have updated them
		c.wrong("push_every", fmt.Sprintf("%d with compression", s.PushEvery), "gradients and parameters that travel as float32")
	}
	switch {
	case !s.MergeHosts:
	case s.Mode != job.Mode_SYNC:
		c.wrong("merge_hosts", "in async mode", "sync mode, whose rounds merge contributions")
	case s.Transport == job.Transport_GRPC:
		c.wrong("merge_hosts", "with the transport grpc", "another transport: trainers of one host merge what travels on data connections")
	case compresses(s):
		c.wrong("merge_hosts", "with compression", "gradients and parameters that travel as float32")
	}
}

// backups checks how many contributions a round may lack, and that the job has nothing that needs all of them.
func (c *checker) backups(s *job.JobSpec) {
	if s.BackupTrainers < 0 || s.BackupTrainers > max(0, s.Trainers-1) {
		c.wrong("backup_trainers", fmt.Sprintf("%d of %d trainers", s.BackupTrainers, s.Trainers), fmt.Sprintf("0 to %d: at least one trainer counts in each round", max(0, s.Trainers-1)))
	}
	switch {
	case s.BackupTrainers == 0:
	case s.Mode != job.Mode_SYNC:
		c.wrong("backup_trainers", "in async mode", "sync mode: async trainers do not wait for each other")
	case s.Transport == job.Transport_GRPC:
		c.wrong("backup_trainers", "with the transport grpc", "another transport: calls bring a late trainer variables of different rounds, a data connection a copy of one")
	case s.MergeHosts:
		c.wrong("backup_trainers", "with merge_hosts", "one of them: who leads a group waits for all of it; devices share the rows of a trainer, too")
	case s.CompressParameters != "none" && s.CompressParameters != "":
		c.wrong("backup_trainers", "with compress_parameters", "parameters that travel as float32: the first ones of a trainer come on its data connection; gradients may be rounded")
	case strings.HasPrefix(s.CompressGradients, "topk"):
		c.wrong("backup_trainers", "with compress_gradients "+s.CompressGradients, "bf16 or fp16: a contribution that is dropped takes what earlier ones have left along")
	case slices.ContainsFunc(s.Data, (*job.DataBinding).GetFollow):
		c.wrong("backup_trainers", "with a dataset that follows its folder", "one that is there from the beginning: what is dropped is trained at the end of a pass")
	}
}

// standby checks that servers can have standbys.
func (c *checker) standby(s *job.JobSpec) {
	c.within("standby", int64(s.Standby), 0, 1)
	switch {
	case s.Standby == 0:
	case s.Transport == job.Transport_GRPC:
		c.wrong("standby", "with the transport grpc", "another transport: a standby is told of updates on a data connection")
	case s.MergeHosts:
		c.wrong("standby", "with merge_hosts", "one of them: a standby that takes over asks each trainer for its contribution again")
	}
}

// checkpoints checks where checkpoints go, how often, and how many stay.
func (c *checker) checkpoints(s *job.JobSpec) {
	if k := s.Checkpoints; k.GetNone() {
		if k.Store != "" || k.Keep != 0 || k.Rounds > 0 || k.Passes || k.Every != nil {
			c.wrong("checkpoint", "none, with what a job has that makes some", "one of them")
		}
	} else if k != nil {
		if s.Mode != job.Mode_SYNC && s.Fed {
			c.wrong("checkpoint", "of an async job that is fed", "a sync job, or one that reads its own data: Save writes the state of a fed one")
		}
		c.within("keep", int64(k.Keep), 1, maxCount)
		every := k.Every.AsDuration()
		switch {
		case k.Passes && (k.Rounds > 0 || every != 0):
			c.wrong("checkpoint_every", "pass with rounds or a time", "one of them")
		case k.Passes && (s.Fed || slices.ContainsFunc(s.Data, func(d *job.DataBinding) bool { return d.Follow })):
			c.wrong("checkpoint_every", "pass in a job without passes", "rounds, or a time")
		case k.Passes:
		case k.Rounds == 0 && (every < minCheckpoint || every > maxDuration) || k.Rounds > math.MaxInt64:
			c.wrong("checkpoint_every", every.String(), "rounds, or a time of "+minCheckpoint.String()+" to "+maxDuration.String())
		}
	}
}

// data checks what a job starts from and which records it reads.
func (c *checker) data(s *job.JobSpec) {
	if s.Resume != "" && (s.Params != "" || s.State != "") {
		c.wrong("resume", fault.Quote(s.Resume), "it, or params: a job starts with one state")
	}
	seen := map[string]bool{}
	for _, d := range s.Data {
		if d.Dataset == "" || seen[d.Dataset] || len(d.Globs) == 0 {
			c.wrong("data", fault.Quote(d.Dataset), "each dataset once, with at least one glob")
		}
		seen[d.Dataset] = true
		if d.Follow && s.Passes > 1 {
			c.wrong("passes", fmt.Sprint(s.Passes), "1 where the dataset "+fault.Quote(d.Dataset)+" follows its folder: it is read as it grows")
		}
	}
}

// durations checks deadlines and limits of time.
func (c *checker) durations(s *job.JobSpec) {
	for field, d := range map[string]*durationpb.Duration{"start_deadline": s.StartDeadline, "round_deadline": s.RoundDeadline, "lease": s.Lease,
		"min_task_timeout": s.MinTaskTimeout, "max_task_timeout": s.MaxTaskTimeout} {
		if !d.IsValid() || d.AsDuration() <= 0 || d.AsDuration() > maxDuration {
			c.wrong(field, d.AsDuration().String(), "a positive duration, at most "+maxDuration.String())
		}
	}
	if s.MaxTime != nil && (!s.MaxTime.IsValid() || s.MaxTime.AsDuration() < time.Second) {
		c.wrong("max_time", s.MaxTime.AsDuration().String(), "a second or more")
	}
	if least, most := s.MinTaskTimeout.AsDuration(), s.MaxTaskTimeout.AsDuration(); least > most {
		c.wrong("min_task_timeout", least.String(), "at most max_task_timeout, "+most.String())
	}
}

// PserverBounds returns the fewest and the most pservers that a job may have.
func PserverBounds(s *job.JobSpec) (least, most int32) {
	return max(1, s.PserversMin), cmp.Or(s.PserversMax, MaxPServers)
}

// FixedPservers says why a job keeps the number of pservers that it began with, as what it has and what it would need; got is empty where it does not.
func FixedPservers(s *job.JobSpec) (got, want string) {
	switch {
	case s.Mode != job.Mode_SYNC && s.Fed: // no round of it ends on all pservers at once, and it has no checkpoints
		return "of an async job that is fed", "a sync job, or one that reads its own data"
	case strings.HasPrefix(s.CompressGradients, "topk"): // which elements are sent depends on the slices: the result would be another one
		return "with compress_gradients " + s.CompressGradients, "a job whose gradients travel whole"
	}
	return "", ""
}

// Backups is how many contributions a round of a job may lack. One that is fed has no later rounds for their rows: it waits for all trainers.
func Backups(s *job.JobSpec) int {
	if s.Fed {
		return 0
	}
	return int(s.BackupTrainers)
}
