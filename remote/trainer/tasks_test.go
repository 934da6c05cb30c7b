package trainer

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// A coordinator that answers at once where it is to wait is asked no second time: the trainer would ask without end.
func TestAnswersThatDoNotWait(t *testing.T) {
	for _, sync := range []bool{true, false} {
		for name, answer := range map[string]*rpc.GetTaskResponse{"pending": {Pending: true}, "nothing": {}} {
			t.Run(fmt.Sprintf("%s, sync=%v", name, sync), func(t *testing.T) {
				data := testkit.Samples(t, t.TempDir(), 10)
				j := newReadingJob(t, testkit.Reading(t, 5, optimizer.SGD(0.1)), data, queue.Policy{Sync: sync, Passes: 1, Trainers: 1})
				j.client = &hasty{CoordinatorClient: j.client, answer: answer}
				s := j.alone(t)
				defer s.Close()
				if _, err := s.Next(bounded(t)); fault.KindOf(err) != fault.Internal {
					t.Errorf("it goes on with %v", err)
				}
			})
		}
	}
}

// hasty is a coordinator that gives one answer to requests for tasks, and an error to those who ask again.
type hasty struct {
	rpc.CoordinatorClient
	answer *rpc.GetTaskResponse
	asked  bool
}

func (h *hasty) GetTask(context.Context, *rpc.GetTaskRequest, ...grpc.CallOption) (*rpc.GetTaskResponse, error) {
	if h.asked {
		return nil, fault.New(fault.Unsupported, "a second request")
	}
	h.asked = true
	return h.answer, nil
}
