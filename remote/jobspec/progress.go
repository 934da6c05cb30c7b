package jobspec

import (
	"math"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/proto/job"
)

// ProgressOf returns what a message says. A message that is absent is the Progress of a new state. A pass beyond the range of int32 cannot be in a
// message; Check of the result finds what else is wrong.
func ProgressOf(m *job.Progress) executor.Progress {
	return executor.Progress{Steps: m.GetSteps(), Pass: int(m.GetPass()), Batch: m.GetBatch(), Reader: m.GetReader()}
}

// ProgressMessage is the inverse of ProgressOf.
func ProgressMessage(p executor.Progress) *job.Progress {
	return &job.Progress{Steps: p.Steps, Pass: int32(min(p.Pass, math.MaxInt32)), Batch: p.Batch, Reader: p.Reader}
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
