package coordinator_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// The tasks of an async trainer that is lost go to others without what is committed of them, and count as failures only if nothing is; those of one
// that drains never do.
func TestTasksOfThoseWhoAreGone(t *testing.T) {
	for name, gone := range map[string]func(s running){
		"lost": func(s running) { s.lose(1) },
		"drained": func(s running) {
			_, _ = s.client.Leave(s.home.t.Context(), &rpc.LeaveRequest{Id: id(1, 0), Drained: true})
		},
		"failed": func(s running) {
			_, _ = s.client.Leave(s.home.t.Context(), &rpc.LeaveRequest{Id: id(1, 0), Failure: failure(fault.Unavailable)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := async(2)
			cfg.MaxFailures = 0
			h := newHome(t, cfg)
			s := h.start()
			s.joinAll(0, 0, 1)
			s.reportDataset(t, 30)
			mine, other := s.mustAsk(1, 0, 0), s.mustAsk(1, 1, 0)
			h.servers[0].enter(0, &rpc.RecordRange{From: other.Records[0].From, To: other.Records[0].From + 3})
			gone(s)
			s.status(func(q *rpc.QueuesResponse) bool { return q.Queues[0].Todo == 2 && q.Generation == 2 })
			third := s.mustAsk(1, 0, 1, mine)
			back := s.mustAsk(1, 0, 2, third)
			if back.Id != other.Id || back.Records[0].From != other.Records[0].From+3 || back.Epoch != 2 {
				t.Errorf("%v came back as %v", other, back)
			}
			if _, err := s.ask(1, 1, 1, other); !errors.Is(err, fault.Stale) {
				t.Errorf("one that is gone is told %v", err)
			}
			r, err := s.join(1, 300, 1)
			if err != nil || r.Generation != 3 || r.Trainers != 2 {
				t.Errorf("it comes back as %v, %v", r, err)
			}
			if _, err := s.ask(3, 1, 0); err != nil {
				t.Error(err)
			}
		})
	}
}
