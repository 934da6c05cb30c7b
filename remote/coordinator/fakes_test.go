package coordinator_test

import (
	"context"
	"io"
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator"
)

// store is what the coordinators of a job keep, in memory. It can be made to fail.
type store struct {
	mu      sync.Mutex
	entries map[string][]byte
	fence   uint64 // of who holds the lock
	fail    func(changes []cluster.Change) error
	commits int
	largest int // changes of one commit
}

func newStore() *store { return &store{entries: map[string][]byte{}, fence: 10} }

// lead gives the lock to another coordinator.
func (s *store) lead() coordinator.Lead {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fence++
	return coordinator.Lead{Fence: s.fence, State: &held{s, s.fence}}
}

// failing makes commits fail with what f returns, until it is nil.
func (s *store) failing(f func(changes []cluster.Change) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

func (s *store) copy() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.entries)
}

// held is the store as one coordinator has it.
type held struct {
	*store
	of uint64
}

func (h *held) check() error {
	if h.of != h.fence {
		return &fault.Fault{Kind: fault.Fenced, Where: "store", Got: "a lock that was lost"}
	}
	return nil
}

func (h *held) Load(context.Context) (map[string][]byte, error) {
	entries := h.copy()
	h.mu.Lock()
	defer h.mu.Unlock()
	return entries, h.check()
}

func (h *held) Commit(_ context.Context, changes []cluster.Change) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.check(); err != nil {
		return err
	}
	if h.fail != nil {
		if err := h.fail(changes); err != nil {
			return err
		}
	}
	h.commits++
	h.largest = max(h.largest, len(changes))
	for _, c := range changes {
		if c.Value == nil {
			delete(h.entries, c.Key)
		} else {
			h.entries[c.Key] = c.Value
		}
	}
	return nil
}

// fakeServer is a pserver as the coordinator sees it.
type fakeServer struct {
	rpc.ParameterServerClient
	mu       sync.Mutex
	fence    uint64
	freezes  int
	resumed  *rpc.ResumeRequest
	round    uint64
	declared []*rpc.Declared
	applied  []*rpc.Declared
	ledger   map[int32][]*rpc.RecordRange

	completed []uint32
	dismissed int  // how often it has heard of the end
	gone      bool // nobody answers
}

func (s *fakeServer) hear(id *rpc.Identity) error {
	if s.gone {
		return fault.New(fault.Unavailable, "a server that has ended")
	}
	if id.Fence < s.fence {
		return &fault.Fault{Kind: fault.Fenced, Where: "pserver", Got: "a coordinator of the past"}
	}
	s.fence = id.Fence
	return nil
}

func (s *fakeServer) Freeze(_ context.Context, m *rpc.FreezeRequest, _ ...grpc.CallOption) (*rpc.FreezeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.hear(m.Id); err != nil {
		return nil, err
	}
	s.freezes++
	return &rpc.FreezeResponse{Generation: s.resumed.GetId().GetGeneration(), Round: s.round, Declared: slices.Clone(s.declared),
		Applied: slices.Clone(s.applied), Completed: s.completed}, nil
}

func (s *fakeServer) Resume(_ context.Context, m *rpc.ResumeRequest, _ ...grpc.CallOption) (*rpc.ResumeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.hear(m.Id); err != nil {
		return nil, err
	}
	if len(m.Members) == 0 {
		s.dismissed++
		return &rpc.ResumeResponse{}, nil
	}
	if m.Round == s.round+1 {
		s.applied = m.Commit
	}
	s.resumed, s.round, s.declared = m, m.Round, nil
	return &rpc.ResumeResponse{}, nil
}

func (s *fakeServer) Ledger(_ context.Context, m *rpc.LedgerRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[rpc.Piece], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := proto.Marshal(&rpc.LedgerResponse{Round: s.round, Passes: []*rpc.PassLedger{{Pass: m.Pass, Committed: s.ledger[m.Pass]}}})
	return &pieces{rest: []*rpc.Piece{{Piece: b}}}, err
}

// pieces is an answer that has arrived.
type pieces struct {
	grpc.ServerStreamingClient[rpc.Piece]
	rest []*rpc.Piece
}

func (p *pieces) Recv() (*rpc.Piece, error) {
	if len(p.rest) == 0 {
		return nil, io.EOF
	}
	next := p.rest[0]
	p.rest = p.rest[1:]
	return next, nil
}

// train applies rounds.
func (s *fakeServer) train(rounds uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round += rounds
}

// enter puts records into the ledger.
func (s *fakeServer) enter(pass int32, records ...*rpc.RecordRange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ledger == nil {
		s.ledger = map[int32][]*rpc.RecordRange{}
	}
	s.ledger[pass] = append(s.ledger[pass], records...)
	slices.SortFunc(s.ledger[pass], func(a, b *rpc.RecordRange) int { return int(a.From - b.From) })
}

// alive is who lives.
type alive struct {
	mu       sync.Mutex
	trainers map[cluster.Member]uint64
}

func trainerOf(rank uint32) cluster.Member {
	return cluster.Member{Role: job.Role_TRAINER, Index: int(rank)}
}

func (a *alive) set(rank uint32, incarnation uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.trainers == nil {
		a.trainers = map[cluster.Member]uint64{}
	}
	a.trainers[trainerOf(rank)] = incarnation
}

func (a *alive) remove(rank uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.trainers, trainerOf(rank))
}

func (a *alive) list(context.Context) (map[cluster.Member]uint64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.trainers), nil
}

// lose ends a trainer, and tells the coordinator.
func (s running) lose(rank uint32) {
	s.home.live.remove(rank)
	if err := s.Lost(s.home.t.Context(), trainerOf(rank)); err != nil {
		s.home.t.Fatal(err)
	}
}

func failure(kind fault.Kind) *job.Failure {
	return &job.Failure{Kind: int32(kind), Message: "made up"}
}

func serverMember(index int) cluster.Member {
	return cluster.Member{Role: job.Role_PSERVER, Index: index}
}

// forget makes the server another process.
func (s *fakeServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resumed, s.round, s.declared, s.applied = nil, 0, nil, nil
}
