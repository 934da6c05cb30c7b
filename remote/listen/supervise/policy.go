package supervise

import (
	"errors"
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
)

// Times of the policy.
const (
	FirstPause = 50 * time.Millisecond // between an end and the next start; it doubles
	LongPause  = 5 * time.Second       // that it grows to
	GoodRun    = time.Minute           // after which restarts count, and pauses begin, anew
	FairRun    = time.Second           // after which pauses begin anew if the job has gone on meanwhile
	LostGrace  = time.Second           // for a role to end by itself when its lease is lost
	// ReleaseGrace is for a pserver to end by itself when the coordinator has ended well; a trainer has LostGrace.
	ReleaseGrace = 10 * time.Second
)

// A Policy is what a job allows.
type Policy struct {
	PServers    int
	MaxRestarts int           // of each role, and of the whole history; 0: none
	DrainTime   time.Duration // for a trainer to end that is not wanted any more; then it is killed
}

// mendable reports whether another start may do better. The coordinator's deadlines, and those of pservers, are the user's bounds of the job.
func mendable(m cluster.Member, err error) bool {
	switch fault.KindOf(err) {
	case fault.InvalidProgram, fault.InvalidArgument, fault.TypeMismatch, fault.ShapeMismatch, fault.NotFound, fault.Unsupported, fault.Corrupt,
		fault.TooLarge, fault.NotFinite, fault.VerifyFailed, fault.Foreign:
		return false
	case fault.DeadlineExceeded:
		return m.Role == job.Role_TRAINER
	}
	return true
}

// exhausted is the error of a job whose role, or whose history, has been started again too often.
func exhausted(what string, restarts int, last error) error {
	if restarts == 0 {
		return last
	}
	return fault.E(fault.KindOf(last), fault.At(what),
		fault.Cause(fmt.Errorf("ended again after %d restarts, which is all that max_restarts allows: %w", restarts, last)))
}

// pauseAfter returns the pause that follows a pause.
func pauseAfter(last time.Duration) time.Duration { return min(max(2*last, FirstPause), LongPause) }

// drained reports whether a role ended on request.
func drained(err error) bool { return errors.Is(err, fault.Drained) }
