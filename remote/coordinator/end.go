package coordinator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/wire"
)

// end ends a job whose members have all left. Servers stay until they hear of it, because until then somebody may ask them how far they are. That the
// members have left is durable first, so that another coordinator asks nobody.
func (s *Server) end() {
	err := wire.Retry(s.ctx, func(uint32) error { return s.transact(s.ctx, s.putLeft) })
	if err != nil {
		s.Fail(err)
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.RejoinDeadline)
	defer cancel()
	s.mu.Lock()
	number := s.machine.Generation().Number + 1
	s.mu.Unlock()
	var told []int
	w := &waiting{who: "coordinator", what: "the servers to hear of the end", since: time.Now(), by: func() (names []string) {
		for i := range s.cfg.Servers {
			if !slices.Contains(told, i) {
				names = append(names, serverName(i))
			}
		}
		return names
	}}
	s.locked(func() { s.waits[w] = true })
	var group sync.WaitGroup
	for i, server := range s.cfg.Servers {
		group.Go(func() {
			if err := s.dismiss(ctx, number, i, server); err != nil && s.ctx.Err() == nil {
				s.cfg.Log.Warn("a server has not heard of the end of the job", "server", i, "reason", err.Error())
			}
			s.locked(func() { told = append(told, i) })
		})
	}
	group.Wait()
	s.locked(func() { delete(s.waits, w); s.finish(nil) })
}

// locked changes what s.mu guards.
func (s *Server) locked(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// putLeft makes durable who has left, where the servers have told it.
func (s *Server) putLeft(t *txn) error {
	s.mu.Lock()
	left := s.machine.State().Left
	s.mu.Unlock()
	for _, rank := range left {
		if err := t.put(leftKey+fmt.Sprint(rank), &state.Left{Rank: rank}); err != nil {
			return err
		}
	}
	return nil
}

// dismiss tells one server of a generation without members, unless it is gone.
func (s *Server) dismiss(ctx context.Context, number uint64, i int, server rpc.ParameterServerClient) error {
	return wire.Retry(ctx, func(attempt uint32) error {
		_, err := server.Resume(ctx, &rpc.ResumeRequest{Id: s.identity(number, attempt)}, grpc.WaitForReady(false))
		err = wire.FromStatus(serverName(i), err)
		if fault.KindOf(err) == fault.Unavailable && s.gone(ctx, cluster.Member{Role: job.Role_PSERVER, Index: i}) {
			return nil
		}
		return err
	})
}

// gone reports whether a member is known not to live.
func (s *Server) gone(ctx context.Context, m cluster.Member) bool {
	if s.cfg.Live == nil {
		return false
	}
	live, err := s.cfg.Live(ctx)
	_, lives := live[m]
	return err == nil && !lives
}
