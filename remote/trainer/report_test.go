package trainer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
)

// messages are what a reporter has sent, with the time of each.
type messages struct {
	began time.Time
	sent  []string
	steps []uint64
	last  *generation
	after time.Duration // how long the answer of a message takes
	fails error         // the answer
}

func (m *messages) send(ctx context.Context, in *generation, steps []*rpc.TrainerStep) error {
	text := fmt.Sprintf("%dms:", time.Since(m.began).Milliseconds())
	for _, step := range steps {
		m.steps = append(m.steps, step.Id.Round)
		text += fmt.Sprintf(" %d", step.Id.Round)
	}
	m.sent, m.last = append(m.sent, text), in
	select {
	case <-time.After(m.after):
	case <-ctx.Done():
		return ctx.Err()
	}
	return m.fails
}

// reporting starts a reporter of messages.
func (m *messages) reporting(t *testing.T, every time.Duration) *reporter {
	m.began = time.Now()
	r := &reporter{every: every, send: m.send, begin: func() func() { return func() {} }}
	r.start(t.Context())
	return r
}

func stepOf(round uint64, bytes int) *rpc.TrainerStep {
	return &rpc.TrainerStep{Id: roundOf(id.Round(round)), Fetched: []*job.Value{{Stream: make([]byte, bytes)}}}
}

// A step that comes after a pause is sent at once, those that follow together; somebody who waits for all of them does not wait for the time to pass.
func TestReportsTogether(t *testing.T) {
	for name, c := range map[string]struct {
		events string // a step of a generation, with its bytes after a colon; a pause in ms, flush
		every  time.Duration
		after  time.Duration
		want   string
	}{
		"after a pause":         {events: "0 100ms 1 100ms 2 flush", every: 20 * time.Millisecond, want: "0ms: 0, 100ms: 1, 200ms: 2"},
		"together":              {events: "0 1ms 1 1ms 2 1ms 3 50ms flush", every: 20 * time.Millisecond, want: "0ms: 0, 20ms: 1 2 3"},
		"flush":                 {events: "0 1ms 1 1ms 2 flush 3 flush", every: 20 * time.Millisecond, want: "0ms: 0, 2ms: 1 2, 2ms: 3"},
		"nothing to flush":      {events: "flush 0 flush flush", every: 20 * time.Millisecond, want: "0ms: 0"},
		"at once":               {events: "0 1ms 1 1ms 2 flush", every: 0, want: "0ms: 0, 1ms: 1, 2ms: 2"},
		"an answer takes long":  {events: "0 1ms 1 1ms 2 60ms flush", every: 0, after: 30 * time.Millisecond, want: "0ms: 0, 30ms: 1 2"},
		"values are large":      {events: "0 1ms 1:600000 1ms 2:600000 1ms 3 flush", every: time.Second, want: "0ms: 0, 2ms: 1, 3ms: 2 3"},
		"a value is very large": {events: "0 1ms 1 1ms 2:3000000 1ms 3 flush", every: time.Second, want: "0ms: 0, 2ms: 1, 2ms: 2, 3ms: 3"},
		"generations":           {events: "0 1ms 1 2 next 3 4 flush", every: time.Second, want: "0ms: 0, 1ms: 1 2, 1ms: 3 4"},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &messages{after: c.after}
			r := m.reporting(t, c.every)
			in := &generation{}
			for _, event := range strings.Fields(c.events) {
				var round uint64
				var bytes int
				pause, notPause := time.ParseDuration(event)
				switch {
				case event == "flush":
					if err := r.flush(); err != nil {
						t.Error(err)
					}
				case event == "next":
					in = &generation{}
				case event != "0" && notPause == nil:
					time.Sleep(pause)
				default:
					_, _ = fmt.Sscanf(event, "%d:%d", &round, &bytes)
					if err := r.report(in, stepOf(round, bytes)); err != nil {
						t.Error(err)
					}
					synctest.Wait()
				}
			}
			r.close()
			if got := strings.Join(m.sent, ", "); got != c.want {
				t.Errorf("%s: sent %q, want %q", name, got, c.want)
			}
		})
	}
}

// A trainer waits when it is too far ahead of its reports, and goes on when they are taken. Nothing is lost, sent twice or out of order.
func TestReportsOfATrainerThatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &messages{after: time.Minute}
		r := m.reporting(t, 20*time.Millisecond)
		const steps = 5 * maxReports
		reported := make(chan struct{})
		var ahead atomic.Int64
		go func() {
			in := &generation{}
			for step := range uint64(steps) {
				if err := r.report(in, stepOf(step, 1)); err != nil {
					t.Error(err)
				}
				ahead.Add(1)
			}
			close(reported)
		}()
		if synctest.Wait(); ahead.Load() > 2*maxReports {
			t.Errorf("the trainer is %d steps ahead", ahead.Load())
		}
		<-reported
		if err := r.flush(); err != nil {
			t.Error(err)
		}
		r.close()
		for i, step := range m.steps {
			if step != uint64(i) || len(m.steps) != steps {
				t.Fatalf("%d steps were sent; number %d is step %d", len(m.steps), i, step)
			}
		}
		if len(m.sent) > 7 {
			t.Errorf("%d messages", len(m.sent))
		}
	})
}

// Whatever comes when: every step is sent once, in order, in a message of its generation; none waits longer than it may; flush leaves nothing behind.
func TestReportsAtRandom(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			m := &messages{after: time.Duration(random.IntN(2)*random.IntN(30)) * time.Millisecond}
			r := m.reporting(t, 20*time.Millisecond)
			in := &generation{}
			steps := uint64(0)
			for range 300 {
				switch random.IntN(20) {
				case 0:
					if err := r.flush(); err != nil || len(m.steps) != int(steps) {
						t.Fatalf("seed %d: %d of %d steps sent when the queue was flushed: %v", seed, len(m.steps), steps, err)
					}
				case 1:
					in = &generation{}
				case 2:
					time.Sleep(time.Second)
					if synctest.Wait(); len(m.steps) != int(steps) && m.after == 0 {
						t.Fatalf("seed %d: %d of %d steps sent after a pause", seed, len(m.steps), steps)
					}
				case 3:
					time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
				default:
					if err := r.report(in, stepOf(steps, random.IntN(2)*random.IntN(maxReportBytes))); err != nil {
						t.Fatal(err)
					}
					steps++
				}
			}
			if err := errors.Join(r.flush(), r.report(in, stepOf(steps, 0)), r.flush()); err != nil || m.last != in {
				t.Fatal(err)
			}
			r.close()
			for i, step := range m.steps {
				if step != uint64(i) || len(m.steps) != int(steps)+1 {
					t.Fatalf("seed %d: of %d steps were sent %v", seed, steps+1, m.steps)
				}
			}
		})
	}
}

// A coordinator that dies takes with it what it has answered and not told. So a trainer keeps its last reports, within bounds, and sends them again, in
// order and before those that were not sent yet. One that was sent again is kept again: the next coordinator may die, too.
func TestReportsAreRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		events string // a step with its bytes after a colon; a pause; repeat
		lose   bool   // the reporter keeps nothing
		want   string
	}{
		"nothing":       {events: "repeat", want: ""},
		"the last":      {events: "0 1 2 repeat", want: "0 1 2 0 1 2"},
		"and again":     {events: "0 1 repeat 2 repeat", want: "0 1 0 1 2 0 1 2"},
		"in order":      {events: "0 1ms 1 1ms 2 repeat", want: "0 0 1 2"},
		"too old":       {events: "0 500ms 1 500ms 2 500ms 3 500ms 4 500ms 5 repeat", want: "0 1 2 3 4 5 1 2 3 4 5"},
		"silence":       {events: "0 1 1h 2 repeat", want: "0 1 2 0 1 2"},
		"one is kept":   {events: "0 1h repeat", want: "0 0"},
		"too many":      {events: "0:600000 1s 1:600000 1s 2:1 1s repeat", want: "0 1 2 1 2"},
		"one too large": {events: "0:9 1s 1:3000000 1s repeat", want: "0 1 1"},
		"async":         {events: "0 1 2 repeat", lose: true, want: "0 1 2"},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &messages{}
			r := m.reporting(t, 20*time.Millisecond)
			r.keep = !c.lose
			in := &generation{}
			for _, event := range strings.Fields(c.events) {
				var round uint64
				var bytes int
				pause, notPause := time.ParseDuration(event)
				switch {
				case event == "repeat":
					if err := r.repeat(); err != nil {
						t.Error(err)
					}
				case event != "0" && notPause == nil:
					time.Sleep(pause)
				default:
					_, _ = fmt.Sscanf(event, "%d:%d", &round, &bytes)
					if err := r.report(in, stepOf(round, bytes)); err != nil {
						t.Error(err)
					}
					if name != "in order" {
						if err := r.flush(); err != nil {
							t.Error(err)
						}
					}
				}
			}
			r.close()
			if got := strings.Trim(fmt.Sprint(m.steps), "[]"); got != c.want {
				t.Errorf("%s: sent %s, want %s", name, got, c.want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		m := &messages{}
		r := m.reporting(t, 0)
		r.keep = true
		for round := range uint64(2 * maxKept) {
			if err := r.report(&generation{}, stepOf(round, 0)); err != nil {
				t.Error(err)
			}
		}
		if err := errors.Join(r.flush(), r.repeat()); err != nil || len(m.steps) != 3*maxKept || m.steps[2*maxKept] != maxKept {
			t.Errorf("%d steps were sent in all, error %v", len(m.steps), err)
		}
		r.close()
	})
}

// A trainer that waits for the next generation when the coordinator dies tells the next coordinator first what it has reported: that closes the steps before the
// generation when it begins.
func TestReportsBeforeAnotherCoordinatorIsJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &messages{}
		r := m.reporting(t, 0)
		r.keep = true
		for round := range uint64(2) {
			if err := errors.Join(r.report(&generation{}, stepOf(round, 0)), r.flush()); err != nil {
				t.Error(err)
			}
		}
		members := newMembership(&Config{Coordinator: &dying{joins: func(try int) {
			if got, want := len(m.steps), 2+2*try; got != want {
				t.Errorf("try %d comes after %d reports, want %d", try, got, want)
			}
		}}}, caller{unavailable: time.Hour})
		members.again = r.repeat
		if g, err := members.next(t.Context()); err != nil || g.Generation != 7 {
			t.Error(g, err)
		}
		r.close()
	})
}

// dying is a coordinator whose first Join gets no answer.
type dying struct {
	rpc.CoordinatorClient
	joins func(try int)
	tries int
}

func (d *dying) Join(context.Context, *rpc.JoinRequest, ...grpc.CallOption) (*rpc.JoinResponse, error) {
	d.joins(d.tries)
	if d.tries++; d.tries == 1 {
		return nil, status.Error(codes.Unavailable, "the end of this process")
	}
	return &rpc.JoinResponse{Generation: 7}, nil
}

// A reporter ends with its trainer, and outlives the lease of the trainer: then what is under way and what waits is sent, for a time.
func TestReportsAfterALostLease(t *testing.T) {
	lost := fault.New(fault.Fenced, "a lost lease")
	for name, c := range map[string]struct {
		cause  error
		answer time.Duration // takes so long
		want   string
	}{
		"another end":  {errors.New("interrupted"), 100 * time.Millisecond, "0ms: 0"},
		"a lost lease": {lost, 100 * time.Millisecond, "0ms: 0, 100ms: 1 2, 200ms: 0 1 2"},
		"no answer":    {lost, time.Hour, "0ms: 0"},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &messages{began: time.Now(), after: c.answer}
			r := &reporter{keep: true, after: time.Second, send: m.send, begin: func() func() { return func() {} }}
			ctx, end := context.WithCancelCause(t.Context())
			r.start(ctx)
			in := &generation{}
			for round := range uint64(3) {
				if err := r.report(in, stepOf(round, 0)); err != nil {
					t.Error(err)
				}
				synctest.Wait()
			}
			time.Sleep(50 * time.Millisecond)
			end(c.cause)
			if err := r.flush(); (err == nil) != (c.want != "0ms: 0") {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(m.began); took > 50*time.Millisecond+time.Second {
				t.Errorf("%s: the end takes %v", name, took)
			}
			_ = r.repeat()
			r.close()
			if got := strings.Join(m.sent, ", "); got != c.want {
				t.Errorf("%s: sent %q, want %q", name, got, c.want)
			}
		})
	}
}

// When a message fails for good, whoever reports or waits is told why. Closing a reporter gives up what is under way.
func TestReportsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("no coordinator")
		m := &messages{fails: lost, after: time.Second}
		r := m.reporting(t, 20*time.Millisecond)
		if err := errors.Join(r.report(&generation{}, stepOf(0, 0)), r.report(&generation{}, stepOf(1, 0))); err != nil {
			t.Error(err)
		}
		if err := r.flush(); err != lost {
			t.Error(err)
		}
		if err := r.report(&generation{}, stepOf(2, 0)); err != lost {
			t.Error(err)
		}
		r.close()
		if len(m.steps) != 1 {
			t.Errorf("sent %v", m.steps)
		}
		m = &messages{after: time.Hour}
		r = m.reporting(t, 20*time.Millisecond)
		if err := r.report(&generation{}, stepOf(0, 0)); err != nil {
			t.Error(err)
		}
		began := time.Now()
		if r.close(); time.Since(began) > 0 {
			t.Errorf("the end took %v", time.Since(began))
		}
	})
}
