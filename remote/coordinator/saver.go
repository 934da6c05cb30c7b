package coordinator

import (
	"context"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
)

// RequestSaveModel elects the first trainer that asks, and answers it when all others have left: then nothing changes the model any more. The
// same trainer asking again is told the same, so that a repeated message does no harm. When the one that was elected is lost for good another is.
func (s *Server) RequestSaveModel(ctx context.Context, m *rpc.SaveModelRequest) (*rpc.SaveModelResponse, error) {
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	rank := m.Id.Rank
	granted := false
	err := s.transact(ctx, func(t *txn) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.isMember(m.Id); err != nil {
			return err
		}
		saver := s.members.saver
		if t.saver != nil { // elected by a request before this one
			saver = t.saver
		}
		if saver != nil && (*saver == rank || s.machine.Saves(*saver)) {
			granted = *saver == rank
			return nil
		}
		granted, t.saver = true, &rank
		t.then(func() { s.members.saver = &rank })
		return t.put(saverKey, &state.Saver{Rank: rank})
	})
	if err != nil || !granted {
		return &rpc.SaveModelResponse{}, err
	}
	w := waiting{who: trainerName(rank), what: "the other trainers to finish, before the model is saved", by: func() (names []string) {
		for _, other := range s.machine.Others(rank) {
			names = append(names, trainerName(other))
		}
		return names
	}}
	err = s.await(ctx, w, func() (bool, error) { return len(s.machine.Others(rank)) == 0, s.isMember(m.Id) })
	return &rpc.SaveModelResponse{Granted: true}, err
}
