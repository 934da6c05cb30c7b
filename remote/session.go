package remote

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// A session is the steps of one program that were fed since the kept state. Their feeds are here, in the log. Their effect is in a fed job:
//
//	          open            replay            step
//	no job ---------> behind ---------> level --------.
//	  ^                 |               |  ^          |
//	  '-----------------+---------------'  '----------'
//	    the job fails, or is stopped
//
//	no job  The kept state and the log say what the state is.
//	behind  A job runs that began with the kept state. It has trained the first steps of the log.
//	level   The job has trained all steps of the log.
//
// When a job leaves a state, this becomes the kept state, and the log loses the steps that the job has trained.
type session struct {
	client  *Client
	program *program.Program
	hash    program.Hash
	log     feedLog

	id      string // of the job; empty: no job
	leave   func() // ends the stream that tells the listener that this client lives
	begin   uint64 // Progress.Steps of the state before the first step of the log, once a job has begun with it
	trained int    // steps of the job
	// unsure gives up the last call, whose outcome is not known; nil: it is known.
	unsure  *rpc.StepRun
	pending []*job.Value // the feed of that call: a step that may be trained or not; nil: the call only read

	endTime time.Duration // for which a call waits for the end of a job whose coordinator says that it has ended

	losses   int // of jobs that have lost a member, since a job has got further than any before it
	furthest int // steps that a job of this log has trained
}

// maxLosses is how often a call feeds the steps of a session again without getting further, because jobs lose members.
const maxLosses = 3

// newSession returns a session of program p without steps. begin is Progress.Steps of the kept state.
func newSession(c *Client, p *program.Program, begin uint64, endTime time.Duration) (*session, error) {
	hash, err := p.Hash()
	return &session{client: c, program: p, hash: hash, begin: begin, endTime: endTime}, err
}

// A feedLog is the encoded feeds of the steps that a session has trained since the kept state, in order.
type feedLog struct {
	steps [][]*job.Value
	bytes int
}

// logBounds bound a log. When a log has reached one of them, the state of the job is kept before the next step, and the log is empty again. So a
// session holds at most so many bytes and one feed, and a replay has at most so many steps.
type logBounds struct{ bytes, steps int }

var defaultBounds = logBounds{bytes: 64 << 20, steps: 1000}

func (l *feedLog) add(feed []*job.Value) {
	l.steps = append(l.steps, feed)
	l.bytes += feedBytes(feed)
}

// drop removes the steps of a part of the log.
func (l *feedLog) drop(from, to int) {
	for i := from; i < to; i++ {
		l.bytes -= feedBytes(l.steps[i])
	}
	l.steps = slices.Delete(l.steps, from, to)
}

func (l *feedLog) full(b logBounds) bool { return l.bytes >= b.bytes || len(l.steps) >= b.steps }

func feedBytes(feed []*job.Value) (n int) {
	for _, v := range feed {
		n += len(v.Name) + len(v.Stream)
	}
	return n
}

// runs reports whether p is the program of the session.
func (s *session) runs(p *program.Program) bool {
	if s.program == p {
		return true
	}
	hash, err := p.Hash()
	if err == nil && hash == s.hash {
		s.program = p
		return true
	}
	return false
}

// has reports whether the steps of the session are in a persistable variable.
func (s *session) has(name string) bool {
	v, ok := s.program.Global().Var(name)
	return ok && v.Persistable && (s.id != "" || len(s.log.steps) > 0)
}

// open begins a job with a spec that has everything but the program. trainers is how many an elastic job had at last, 0 when there was none. begin is
// Progress.Steps of the kept state.
func (s *session) open(ctx context.Context, spec *JobSpec, begin uint64, trainers int32) (err error) {
	if spec.Program, err = s.program.Encode(); err != nil {
		return err
	}
	id, err := submitOnce(ctx, s.client, spec)
	if err != nil {
		return err
	}
	s.id, s.begin, s.leave = id, begin, attend(s.client, id)
	if spec.Params != "" { // the job has read how many steps these have
		if status, err := statusOf(ctx, s.client, id); err == nil {
			s.begin = status.Progress.GetSteps()
		}
	}
	if trainers > spec.Trainers && trainers <= spec.TrainersMax {
		_, _ = s.client.Scale(ctx, id, int(trainers)) // else it trains with fewer
	}
	return nil
}

// closeJob notes that the job has ended. A step whose outcome is not known is not trained, or is part of the state that the job has left.
func (s *session) closeJob() {
	if s.leave != nil {
		s.leave()
	}
	s.id, s.leave, s.trained, s.unsure, s.pending = "", nil, 0, nil, nil
}

// replay trains the steps of the log that the job has not trained, when it is known which these are.
func (s *session) replay(ctx context.Context) error {
	err := s.resolve(ctx)
	for err == nil && s.trained < len(s.log.steps) {
		if _, err = s.run(ctx, s.log.steps[s.trained], nil); errors.Is(err, fault.Duplicate) {
			err = nil
		}
		if err != nil && ctx.Err() == nil {
			_ = s.resolve(ctx) // waits for the end of a job that fails
		}
	}
	return err
}

// run runs one step; without a feed it only reads. After an error a step may be trained or not: resolve finds out.
func (s *session) run(ctx context.Context, feed []*job.Value, fetch []string) (*rpc.StepDone, error) {
	run := &rpc.StepRun{Feed: feed, Fetch: fetch, Step: uint64(s.trained), Call: rand.Uint64()}
	s.unsure, s.pending = &rpc.StepRun{Step: run.Step, Call: run.Call, GiveUp: true}, feed
	done, err := s.client.runStep(ctx, s.id, run)
	switch known := err == nil || errors.Is(err, fault.Duplicate); { // which says that the step is trained, and what it fetched is lost
	case known && len(feed) > 0:
		s.stepTrained()
	case known:
		s.unsure = nil
	}
	return done, err
}

// stepTrained notes that the step whose outcome was not known is trained.
func (s *session) stepTrained() {
	if s.trained == len(s.log.steps) {
		s.log.add(s.pending)
	}
	s.trained++
	if s.trained > s.furthest {
		s.furthest, s.losses = s.trained, 0
	}
	s.unsure, s.pending = nil, nil
}

// resolve finds out whether the last step is trained, when its call has ended with an error. If the coordinator has not accepted it, it never will.
// An error means that the job has ended, that it has lost steps, or that nobody can tell now. A coordinator that has failed says so before the listener
// knows that its job has failed. So resolve waits for the end of the job, for at most endTime. Only then look finds the job as it stays.
func (s *session) resolve(ctx context.Context) error {
	if s.unsure == nil {
		return nil
	}
	until := time.Time{} // when the wait for the end of the job is given up; zero: it has not begun
	for pause := stepPause; ; pause = min(2*pause, longStepPause) {
		done, err := s.client.runStep(ctx, s.id, s.unsure)
		switch {
		case err == nil && done.Steps < uint64(s.trained):
			return fault.E(fault.LostMember, fault.At("job "+s.id), fault.Gotf("a job that has trained %d steps", done.Steps),
				fault.Wantf("the %d steps that it has answered", s.trained))
		case err == nil && done.Steps > uint64(s.trained) && s.pending != nil:
			s.stepTrained()
			return nil
		case err == nil:
			s.unsure, s.pending = nil, nil
			return nil
		case ctx.Err() != nil:
			return err
		}
		if status, unknown := statusOf(ctx, s.client, s.id); unknown != nil || ended(status.State) {
			return err
		}
		if until.IsZero() {
			until = time.Now().Add(s.endTime)
		}
		if time.Now().After(until) || !sleep(ctx, pause) { // the job is about to end, or has a new coordinator soon
			return err
		}
	}
}

// countLoss notes that a job has lost a member, and reports whether the steps are to be fed to another one.
func (s *session) countLoss() bool {
	if s.losses++; s.losses > maxLosses {
		s.losses = 0 // the next call tries again
		return false
	}
	return true
}

// attend keeps a stream to the listener open until leave is called, so that the listener knows that the client which feeds a job lives. The stream is
// opened again when it breaks.
func attend(c *Client, id string) (leave func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_, err := c.watch(ctx, &rpc.JobRequest{Job: id, Follows: true}, nil, func(*job.Event) error { return nil })
			known := !errors.Is(err, fault.NotFound) && !errors.Is(err, fault.Unsupported) // by the listener
			if err == nil || !known || !sleep(ctx, longStepPause) {
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// sleep waits for d. It returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
