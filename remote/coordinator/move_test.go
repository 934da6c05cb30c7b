package coordinator_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/wire"
)

// Arrived notes that it was asked for, and tells of 7 bytes.
func (s *fakeServer) Arrived(_ context.Context, m *rpc.ArrivedRequest, _ ...grpc.CallOption) (*rpc.ArrivedResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived = append(s.arrived, m)
	if m.All {
		return &rpc.ArrivedResponse{}, nil
	}
	return &rpc.ArrivedResponse{Bytes: 7}, nil
}

// move asks for a placement as the listener does.
func (s userCalls) move(to *job.Placement) (*rpc.MoveResponse, error) {
	stream, err := s.client.Move(s.home.t.Context())
	if err != nil {
		return nil, err
	}
	if err := wire.SendAs(stream, idOf(0, 0, 0), &rpc.MoveRequest{To: to}); err != nil {
		return nil, err
	}
	return stream.CloseAndRecv()
}

// A trainer hears of the next placement while it computes, and of the end of its generation when a step has ended. The coordinator ends with the move. The next one
// answers when all servers have their rows, and has told them that they have.
func TestMove(t *testing.T) {
	cfg := config(1)
	to := &job.Placement{Number: 1, Pservers: 2, Program: []byte("of trainers")}
	cfg.Offer = func(*job.Placement) {}
	h := newHome(t, cfg)
	h.cfg.Peer = func(i int) (rpc.ParameterServerClient, error) { return h.servers[i], nil }
	s := h.start()
	s.joinAll(0, 0)
	s.reportDataset(t, 30)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = s.move(to) // this coordinator ends
	}()
	news, err := s.client.News(t.Context(), &rpc.NewsRequest{Id: firstID(0, 0)})
	if err != nil || news.Placement != 1 {
		t.Fatalf("a trainer hears %v, %v; want placement 1", news, err)
	}
	if p, err := wire.Placement(t.Context(), s.client, &rpc.PlacementRequest{Id: firstID(0, 0), Number: 1}); err != nil || string(p.Program) != "of trainers" {
		t.Errorf("of the next placement it gets %v, %v", p, err)
	}
	for _, server := range h.servers {
		server.train(1)
	}
	if err := s.report(t.Context(), &rpc.TrainerStep{Id: firstID(0, 0), Rows: 8, GlobalRows: 8}); err != nil {
		t.Fatal(err)
	}
	news, err = s.client.News(t.Context(), &rpc.NewsRequest{Id: firstID(0, 1), Placement: 1})
	if err != nil || news.Placement != 0 {
		t.Fatalf("when a step has ended, a trainer hears %v, %v; want the end of its generation", news, err)
	}
	_, _ = s.join(0, incarnation(0), 1) // this coordinator ends
	if err := <-s.ended; !errors.Is(err, coordinator.ErrMoved) {
		t.Fatalf("the coordinator ends with %v", err)
	}
	<-asked
	lead := h.store.lead()
	if h.cfg.Placed, err = coordinator.LastPlaced(t.Context(), lead.State); err != nil || h.cfg.Placed.GetNumber() != 1 {
		t.Fatalf("durable is %v, %v", h.cfg.Placed, err)
	}
	h.cfg.Placement = to
	next := h.start()
	if m, err := next.move(to); err != nil || m.Bytes != 14 {
		t.Errorf("the listener hears %v, %v; want 14 bytes", m, err)
	}
	for i, server := range h.servers {
		server.mu.Lock()
		if n := len(server.restored); n != 1 || !server.restored[0].Later || server.restored[0].Placement != 1 {
			t.Errorf("server %d is asked for %v", i, server.restored)
		}
		if n := len(server.arrived); n != 2 || server.arrived[0].All || !server.arrived[1].All {
			t.Errorf("server %d is asked %v", i, server.arrived)
		}
		server.mu.Unlock()
	}
	if _, err := next.client.News(t.Context(), &rpc.NewsRequest{Id: idOf(1, 0, 1), Placement: 1}); err != nil {
		t.Errorf("of a generation of an earlier coordinator: %v", err)
	}
}
