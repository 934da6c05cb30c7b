// Package jobspec reads, completes and checks job specifications: the JobSpec message, and job.yaml for people.
package jobspec

import (
	"cmp"
	"context"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/credential"
)

// reservedName is the key in etcd that holds the nodes of a cluster, next to the keys of jobs.
const reservedName = "nodes"

var jobName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// IsName reports whether a job may have a name.
func IsName(name string) bool { return name != reservedName && jobName.MatchString(name) }

// Separator stands in the id of a job between namespace and name, which neither has.
const Separator = "."

// ID is how a listener and its users call a job: NAME in the namespace default, and NAMESPACE.NAME in another one.
func ID(namespace, name string) string {
	if namespace == "" || namespace == credential.DefaultNamespace {
		return name
	}
	return namespace + Separator + name
}

// NamespaceOf is the namespace of the job with an id.
func NamespaceOf(id string) string {
	if namespace, _, ok := strings.Cut(id, Separator); ok {
		return namespace
	}
	return credential.DefaultNamespace
}

// NameOf is the name of the job with an id, within its namespace.
func NameOf(id string) string { return id[strings.Index(id, Separator)+1:] }

// IsID reports whether a text can be the id of a job.
func IsID(id string) bool {
	namespace, name, ok := strings.Cut(id, Separator)
	if !ok {
		return IsName(id)
	}
	return credential.IsNamespace(namespace) && namespace != credential.DefaultNamespace && IsName(name)
}

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
	return executor.Progress{Steps: m.GetSteps(), Pass: int(m.GetPass()), Batch: m.GetBatch(), Reader: m.GetReader(), Trained: m.GetTrained(), Files: m.GetFiles()}
}

// ProgressMessage is the inverse of ProgressOf.
func ProgressMessage(p executor.Progress) *job.Progress {
	return &job.Progress{Steps: p.Steps, Pass: int32(min(p.Pass, math.MaxInt32)), Batch: p.Batch, Reader: p.Reader, Trained: p.Trained, Files: p.Files}
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
