package trainer

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// slowTasks is a coordinator that answers requests for tasks after the first as a test says.
type slowTasks struct {
	rpc.CoordinatorClient
	asked   chan *rpc.GetTaskRequest
	answers chan *rpc.GetTaskResponse // nil: what the coordinator says
}

func (c *slowTasks) GetTask(ctx context.Context, m *rpc.GetTaskRequest, opts ...grpc.CallOption) (*rpc.GetTaskResponse, error) {
	if m.Position > 0 && !m.ReportOnly {
		c.asked <- m
		select {
		case answer := <-c.answers:
			if answer != nil {
				return answer, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return c.CoordinatorClient.GetTask(ctx, m, opts...)
}

// A trainer asks for tasks while it trains those before, when tasks of aheadRounds rounds are left, and trains these while it waits. What the request
// reports as finished is not lost when the trainer ends meanwhile. It waits at a coordinator that has no tasks only when it has read all before.
func TestTasksAreAskedForAhead(t *testing.T) {
	const batch, rows = 5, 5 * askRounds // of the first answer
	const records = 3 * rows
	data := testkit.Samples(t, t.TempDir(), records)
	for _, then := range []string{"answer", "drain", "no tasks yet"} {
		t.Run(then, func(t *testing.T) {
			ctx := bounded(t)
			j := newReadingJob(t, testkit.Reading(t, batch, optimizer.SGD(0.1)), data, queue.Policy{Sync: true, Passes: 1, Trainers: 1})
			slow := &slowTasks{j.client, make(chan *rpc.GetTaskRequest, 9), make(chan *rpc.GetTaskResponse, 9)}
			j.client = slow
			s := j.alone(t)
			defer s.Close()
			next := func(rounds int) {
				t.Helper()
				for range rounds {
					if _, err := s.Next(ctx); err != nil {
						t.Fatal(err)
					}
				}
			}
			next(askRounds - aheadRounds)
			if len(slow.asked) > 0 {
				t.Errorf("it asks for %v when more than %d rounds are left", <-slow.asked, aheadRounds)
			}
			next(1) // the step before has ended now
			m := <-slow.asked
			trained := int64(askRounds - aheadRounds)
			if m.Position != rows || m.Wait || len(m.Finished) != 1 || m.Finished[0].Id != trained*batch/10-1 {
				t.Errorf("it asks for %v after %d rounds", m, trained)
			}
			if then == "drain" {
				if err := s.HandIn(ctx); err != nil {
					t.Fatal(err)
				}
				if q := j.status(); q.Done != (trained+1)*batch/10 {
					t.Errorf("drained after %d rounds: %v", trained+1, q)
				}
				return
			}
			next(aheadRounds - 1) // the last of them without an answer
			if then == "no tasks yet" {
				slow.answers <- &rpc.GetTaskResponse{Pending: true}
			}
			for range 9 {
				slow.answers <- nil
			}
			next(1)
			if then == "no tasks yet" {
				if m := <-slow.asked; m.Position != rows || !m.Wait {
					t.Errorf("then it asks for %v", m)
				}
			}
			next(2*askRounds - 1)
			if _, err := s.Next(ctx); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			if q := j.status(); q.Done != records/10 {
				t.Errorf("at the end: %v", q)
			}
		})
	}
}
