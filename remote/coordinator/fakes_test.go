package coordinator_test

import (
	"context"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
)

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
	ending    bool // the next Freeze meets a process that is told to end; another takes its place
}

func (s *fakeServer) hear(id *rpc.Identity) error {
	if s.gone {
		return fault.New(fault.Unavailable, "a server that has ended")
	}
	if id.Fence < s.fence {
		return fault.E(fault.Fenced, fault.At("pserver"), fault.Got("a coordinator of the past"))
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
	if s.ending {
		s.ending = false
		return nil, fault.New(fault.Canceled, "a server that is told to end")
	}
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
	if s.gone {
		return nil, fault.New(fault.Unavailable, "a server that has ended")
	}
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
