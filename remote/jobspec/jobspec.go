// Package jobspec reads, completes and checks job specifications: the JobSpec message, and job.yaml for people.
package jobspec

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/proto/job"
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

// reservedName is the key in etcd that holds the nodes of a cluster, next to the keys of jobs.
const reservedName = "nodes"

var jobName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// IsName reports whether a job may have a name.
func IsName(name string) bool { return name != reservedName && jobName.MatchString(name) }

// Complete fills in the defaults of what a spec leaves open.
func Complete(s *job.JobSpec) {
	s.Trainers = cmp.Or(s.Trainers, 1)
	if s.TrainersMax == 0 {
		s.TrainersMax = s.Trainers
	}
	s.Pservers = cmp.Or(s.Pservers, 1)
	if s.MinBlockSize == 0 {
		s.MinBlockSize = 8192
	}
	if s.SplitMethod == "" {
		s.SplitMethod = "round_robin"
	}
	s.Workers = cmp.Or(s.Workers, 1)
	s.StartDeadline = orDefault(s.StartDeadline, defaultStart)
	s.RoundDeadline = orDefault(s.RoundDeadline, defaultRound)
	s.Lease = orDefault(s.Lease, defaultLease)
	if s.MaxRestarts == 0 {
		s.MaxRestarts = 10
	}
	if s.MaxTaskFailures == 0 {
		s.MaxTaskFailures = 3
	}
	if c := s.Checkpoints; c != nil && !c.None {
		c.Keep = cmp.Or(c.Keep, 2)
		if c.Rounds == 0 && !c.Passes && c.Every.AsDuration() == 0 {
			c.Every = durationpb.New(defaultCheckpoint)
		}
	}
	d := DeadlinesOf(s)
	s.MinTaskTimeout, s.MaxTaskTimeout = orDefault(s.MinTaskTimeout, d.TaskMin), orDefault(s.MaxTaskTimeout, d.TaskMax)
}

// Defaults of durations that a job does not set.
const (
	defaultStart      = 2 * time.Minute
	defaultCheckpoint = 5 * time.Minute // between two
	defaultRound      = time.Minute
	defaultLease      = 5 * time.Second
)

func orDefault(d *durationpb.Duration, value time.Duration) *durationpb.Duration {
	if d.AsDuration() == 0 {
		return durationpb.New(value)
	}
	return d
}

// Check reports every mistake of a complete spec.
func Check(s *job.JobSpec) error {
	var faults fault.List
	wrong := func(field, got, want string) {
		faults.Add(fault.E(fault.InvalidArgument, fault.At("job"), fault.Got(field+" "+got), fault.Want(want)))
	}
	within := func(field string, n, least, most int64) {
		if n < least || n > most {
			wrong(field, fmt.Sprint(n), fmt.Sprintf("%d to %d", least, most))
		}
	}
	if s.Name != "" && !IsName(s.Name) {
		wrong("name", fault.Quote(s.Name), "up to 63 lower-case letters, digits and '-', other than "+reservedName)
	}
	if err := wrongLabels(s.Labels); err != nil {
		faults.Add(err)
	}
	within("priority", int64(s.Priority), -maxPriority, maxPriority)
	if s.Queue != "" && !objectName.MatchString(s.Queue) {
		wrong("queue", fault.Quote(s.Queue), "the name of an object of Kubernetes")
	}
	for field, p := range podsOf(s) {
		if err := wrongPod(field, p); err != nil {
			faults.Add(err)
		}
	}
	for field, n := range map[string]*job.Needs{"trainer": s.TrainerNeeds, "pserver": s.PserverNeeds} {
		within(field+"_cores, in thousandths,", n.GetMillicores(), 0, maxMillicores)
		within(field+" memory, in bytes,", n.GetMemory(), 0, maxMemory)
	}
	within("trainers", int64(s.Trainers), 1, maxTrainers)
	within("trainers_max", int64(s.TrainersMax), int64(s.Trainers), maxTrainers)
	within("pservers_max", int64(s.PserversMax), 0, MaxPServers)
	within("pservers_min", int64(s.PserversMin), 0, int64(s.PserversMax))
	least, most := PserverBounds(s)
	within("pservers", int64(s.Pservers), int64(least), int64(most))
	if got, want := FixedPservers(s); s.PserversMax > 0 && got != "" {
		wrong("pservers_max", got, want+", or one number of pservers")
	}
	within("fetch", int64(len(s.Fetch)), 0, maxFetch)
	within("passes", int64(s.Passes), 0, maxPasses)
	within("workers", int64(s.Workers), 1, maxWorkers)
	within("devices", int64(cmp.Or(s.Devices, 1)), 1, maxDevices)
	within("min_block_size", s.MinBlockSize, 1, 1<<40)
	within("records_per_task", s.RecordsPerTask, 0, 1<<40)
	within("profile_steps", int64(s.ProfileSteps), 0, timing.MaxSteps)
	within("max_ahead", int64(s.MaxAhead), 0, math.MaxInt32)
	within("max_restarts", int64(s.MaxRestarts), -maxCount, maxCount)
	within("max_task_failures", int64(s.MaxTaskFailures), 1, maxCount)
	if _, ok := job.Mode_name[int32(s.Mode)]; !ok {
		wrong("mode", fmt.Sprint(s.Mode), "sync or async")
	}
	if s.SplitMethod != "round_robin" && s.SplitMethod != "hash_name" {
		wrong("split_method", fault.Quote(s.SplitMethod), "round_robin or hash_name")
	}
	if _, err := compress.ParseGradients(s.CompressGradients); err != nil {
		wrong("compress_gradients", fault.Quote(s.CompressGradients), compress.GradientForms)
	}
	if _, err := compress.ParseParameters(s.CompressParameters); err != nil {
		wrong("compress_parameters", fault.Quote(s.CompressParameters), compress.ParameterForms)
	}
	if _, ok := job.Transport_name[int32(s.Transport)]; !ok {
		wrong("transport", fmt.Sprint(s.Transport), "one of "+strings.Join(Transports(), ", "))
	}
	within("day_rounds", s.DayRounds, 0, 1<<40)
	within("push_every", int64(s.PushEvery), 0, maxEvery)
	within("pull_every", int64(s.PullEvery), 0, maxEvery)
	for field, every := range map[string]int32{"push_every": s.PushEvery, "pull_every": s.PullEvery} {
		if every > 1 && s.Mode == job.Mode_SYNC {
			wrong(field, fmt.Sprintf("%d in sync mode", every), "async mode, whose trainers do not wait for rounds")
		}
	}
	if s.Staleness != nil {
		within("staleness", int64(*s.Staleness), 0, maxStaleness)
		if s.Mode == job.Mode_SYNC {
			wrong("staleness", fmt.Sprintf("%d in sync mode", *s.Staleness), "async mode: the trainers of a sync job wait for each other in each round")
		}
	}
	if s.PushEvery > 1 && compresses(s) { // sums are made of whole gradients, and servers round parameters when they have updated them
		wrong("push_every", fmt.Sprintf("%d with compression", s.PushEvery), "gradients and parameters that travel as float32")
	}
	switch {
	case !s.MergeHosts:
	case s.Mode != job.Mode_SYNC:
		wrong("merge_hosts", "in async mode", "sync mode, whose rounds merge contributions")
	case s.Transport == job.Transport_GRPC:
		wrong("merge_hosts", "with the transport grpc", "another transport: trainers of one host merge what travels on data connections")
	case compresses(s):
		wrong("merge_hosts", "with compression", "gradients and parameters that travel as float32")
	}
	if got, want := wrongEvaluation(s); got != "" {
		wrong("evaluation", got, want)
	}
	if s.BackupTrainers < 0 || s.BackupTrainers > max(0, s.Trainers-1) {
		wrong("backup_trainers", fmt.Sprintf("%d of %d trainers", s.BackupTrainers, s.Trainers), fmt.Sprintf("0 to %d: at least one trainer counts in each round", max(0, s.Trainers-1)))
	}
	switch {
	case s.BackupTrainers == 0:
	case s.Mode != job.Mode_SYNC:
		wrong("backup_trainers", "in async mode", "sync mode: async trainers do not wait for each other")
	case s.Transport == job.Transport_GRPC:
		wrong("backup_trainers", "with the transport grpc", "another transport: calls bring a late trainer variables of different rounds, a data connection a copy of one")
	case s.MergeHosts:
		wrong("backup_trainers", "with merge_hosts", "one of them: who leads a group waits for all of it; devices share the rows of a trainer, too")
	case s.CompressParameters != "none" && s.CompressParameters != "":
		wrong("backup_trainers", "with compress_parameters", "parameters that travel as float32: the first ones of a trainer come on its data connection; gradients may be rounded")
	case strings.HasPrefix(s.CompressGradients, "topk"):
		wrong("backup_trainers", "with compress_gradients "+s.CompressGradients, "bf16 or fp16: a contribution that is dropped takes what earlier ones have left along")
	case slices.ContainsFunc(s.Data, (*job.DataBinding).GetFollow):
		wrong("backup_trainers", "with a dataset that follows its folder", "one that is there from the beginning: what is dropped is trained at the end of a pass")
	}
	within("standby", int64(s.Standby), 0, 1)
	switch {
	case s.Standby == 0:
	case s.Transport == job.Transport_GRPC:
		wrong("standby", "with the transport grpc", "another transport: a standby is told of updates on a data connection")
	case s.MergeHosts:
		wrong("standby", "with merge_hosts", "one of them: a standby that takes over asks each trainer for its contribution again")
	}
	if c := s.Checkpoints; c.GetNone() {
		if c.Store != "" || c.Keep != 0 || c.Rounds > 0 || c.Passes || c.Every != nil {
			wrong("checkpoint", "none, with what a job has that makes some", "one of them")
		}
	} else if c != nil {
		if s.Mode != job.Mode_SYNC && s.Fed {
			wrong("checkpoint", "of an async job that is fed", "a sync job, or one that reads its own data: Save writes the state of a fed one")
		}
		within("keep", int64(c.Keep), 1, maxCount)
		every := c.Every.AsDuration()
		switch {
		case c.Passes && (c.Rounds > 0 || every != 0):
			wrong("checkpoint_every", "pass with rounds or a time", "one of them")
		case c.Passes && (s.Fed || slices.ContainsFunc(s.Data, func(d *job.DataBinding) bool { return d.Follow })):
			wrong("checkpoint_every", "pass in a job without passes", "rounds, or a time")
		case c.Passes:
		case c.Rounds == 0 && (every < minCheckpoint || every > maxDuration) || c.Rounds > math.MaxInt64:
			wrong("checkpoint_every", every.String(), "rounds, or a time of "+minCheckpoint.String()+" to "+maxDuration.String())
		}
	}
	if s.Resume != "" && (s.Params != "" || s.State != "") {
		wrong("resume", fault.Quote(s.Resume), "it, or params: a job starts with one state")
	}
	seen := map[string]bool{}
	for _, d := range s.Data {
		if d.Dataset == "" || seen[d.Dataset] || len(d.Globs) == 0 {
			wrong("data", fault.Quote(d.Dataset), "each dataset once, with at least one glob")
		}
		seen[d.Dataset] = true
		if d.Follow && s.Passes > 1 {
			wrong("passes", fmt.Sprint(s.Passes), "1 where the dataset "+fault.Quote(d.Dataset)+" follows its folder: it is read as it grows")
		}
	}
	for field, d := range map[string]*durationpb.Duration{"start_deadline": s.StartDeadline, "round_deadline": s.RoundDeadline, "lease": s.Lease,
		"min_task_timeout": s.MinTaskTimeout, "max_task_timeout": s.MaxTaskTimeout} {
		if !d.IsValid() || d.AsDuration() <= 0 || d.AsDuration() > maxDuration {
			wrong(field, d.AsDuration().String(), "a positive duration, at most "+maxDuration.String())
		}
	}
	if s.MaxTime != nil && (!s.MaxTime.IsValid() || s.MaxTime.AsDuration() < time.Second) {
		wrong("max_time", s.MaxTime.AsDuration().String(), "a second or more")
	}
	if least, most := s.MinTaskTimeout.AsDuration(), s.MaxTaskTimeout.AsDuration(); least > most {
		wrong("min_task_timeout", least.String(), "at most max_task_timeout, "+most.String())
	}
	return faults.Err()
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

// ParseEvery reads how often checkpoints are made: 1000r is a number of rounds, 5m a time, and pass is the end of each pass.
func ParseEvery(value string, c *job.Checkpoints) error {
	c.Rounds, c.Every, c.Passes = 0, nil, value == "pass"
	if c.Passes {
		return nil
	}
	if digits, ok := strings.CutSuffix(value, "r"); ok {
		if n, err := strconv.ParseUint(digits, 10, 63); err == nil && n > 0 {
			c.Rounds = n
			return nil
		}
	} else if d, err := time.ParseDuration(value); err == nil && d > 0 {
		c.Every = durationpb.New(d)
		return nil
	}
	return fault.E(fault.InvalidArgument, fault.Got(fault.Quote(value)), fault.Want("a time such as 5m, rounds such as 1000r, or pass"))
}

// compresses reports whether gradients or parameters travel in fewer bits.
func compresses(s *job.JobSpec) bool {
	gradients, _ := compress.ParseGradients(s.CompressGradients)
	parameters, _ := compress.ParseParameters(s.CompressParameters)
	return gradients != compress.None || parameters != compress.None
}

// ProgressOf returns what a message says. A message that is absent is the Progress of a new state. A pass beyond the range of int32 cannot be in a
// message; Check of the result finds what else is wrong.
func ProgressOf(m *job.Progress) executor.Progress {
	return executor.Progress{Steps: m.GetSteps(), Pass: int(m.GetPass()), Batch: m.GetBatch(), Reader: m.GetReader(), Trained: m.GetTrained()}
}

// ProgressMessage is the inverse of ProgressOf.
func ProgressMessage(p executor.Progress) *job.Progress {
	return &job.Progress{Steps: p.Steps, Pass: int32(min(p.Pass, math.MaxInt32)), Batch: p.Batch, Reader: p.Reader, Trained: p.Trained}
}

// Begin is where a job begins that starts with a state of Progress p, given the hash of its reader. Steps are counted on. The position in the data
// holds only if the program reads the data in the same way; else the job begins with the first pass. A job that is fed reads nothing: the position
// stays as it is for the next job that reads.
func Begin(p executor.Progress, reader string, fed bool) executor.Progress {
	if !fed && p.Reader != reader {
		return executor.Progress{Steps: p.Steps, Reader: reader}
	}
	return p
}

// CheckFiles refuses data of which this machine has no file, before a job begins for them. Files of a dataset that grows may come later.
func CheckFiles(ctx context.Context, s *job.JobSpec) error {
	for _, of := range []struct {
		flag string
		data []*job.DataBinding
	}{{"--data ", s.Data}, {"--eval-data ", s.Evaluation.GetData()}} {
		for _, d := range of.data {
			if d.Follow {
				continue
			}
			if err := dataset.CheckFiles(ctx, d.Globs); err != nil {
				return fault.Wrap(fault.KindOf(err), of.flag+d.Dataset, err)
			}
		}
	}
	return nil
}
