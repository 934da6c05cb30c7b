package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// config is a job with deadlines that no test reaches. Its program declares x, label and y, which are batched, and rate, which is not; what
// trainers fetch merges to the concatenation of their bytes.
func config(trainers int) coordinator.Config {
	p := program.New()
	p.Global().EnsureVar(program.Var{Name: "x", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 2}})
	for _, name := range []string{"label", "y"} {
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 2}})
	}
	p.Global().EnsureVar(program.Var{Name: "rate", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}})
	identity := wire.Identity{Job: pstest.Identity.Job, Program: pstest.Identity.Program}
	return coordinator.Config{Identity: identity, Program: p, Trainers: trainers, Sync: true,
		Passes: 1, RecordsPerTask: 10, MaxFailures: 1,
		StartDeadline: time.Hour, RejoinDeadline: time.Hour, TaskTimeout: [2]time.Duration{time.Minute, time.Hour},
		Merge: func(reports []*rpc.TrainerStep) ([]*job.Value, error) {
			out := &job.Value{Name: "y"}
			for _, r := range reports {
				for _, v := range r.Fetched {
					out.Stream = append(out.Stream, v.Stream...)
				}
			}
			if bytes.Contains(out.Stream, []byte("broken")) {
				return nil, errors.New("cannot be merged")
			}
			return []*job.Value{out}, nil
		}}
}

// home is a job: what outlives its coordinators.
type home struct {
	t       *testing.T
	cfg     coordinator.Config
	store   *store
	servers []*fakeServer
	live    *alive
	wanted  int // trainers; 0: the minimum
}

func newHome(t *testing.T, cfg coordinator.Config) *home {
	h := &home{t: t, cfg: cfg, store: newStore(), live: &alive{}}
	for range 2 {
		s := &fakeServer{}
		h.servers = append(h.servers, s)
		h.cfg.Servers = append(h.cfg.Servers, s)
	}
	h.cfg.Live = h.live.list
	return h
}

// firstID is the identity of a trainer in generation 1.
func firstID(rank uint32, round uint64) *rpc.Identity { return idOf(1, rank, round) }

func idOf(generation uint64, rank uint32, round uint64) *rpc.Identity {
	return &rpc.Identity{Job: pstest.Identity.Job, ProgramHash: pstest.Identity.Program, Generation: generation, Rank: rank, Round: round}
}

// incarnation is that of the first process of a rank.
func incarnation(rank uint32) uint64 { return 100 + uint64(rank) }

// filesOf makes one file of each number of records.
func filesOf(records ...int64) []*rpc.DataFile {
	var files []*rpc.DataFile
	first := int64(0)
	for i, n := range records {
		files = append(files, &rpc.DataFile{Path: fmt.Sprintf("f%d", i), FirstRecord: first, Records: n, Bytes: 8 * n, Fingerprint: uint64(i)})
		first += n
	}
	return files
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

	history  uint64
	restored []*rpc.RestoreRequest
	arrived  []*rpc.ArrivedRequest
	refuses  map[string]error // of Restore, by checkpoint

	completed []uint32
	dismissed int  // how often it has heard of the end
	gone      bool // nobody answers
	ending    bool // the next Freeze meets a process that is told to end; another takes its place
}

func (s *fakeServer) hear(who *rpc.Identity) error {
	if s.gone {
		return fault.New(fault.Unavailable, "a server that has ended")
	}
	if who.Fence < s.fence {
		return fault.E(fault.Fenced, fault.At("pserver"), fault.Got("a coordinator of the past"))
	}
	s.fence = who.Fence
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
		Applied: slices.Clone(s.applied), Completed: s.completed, History: s.history}, nil
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

// store is what the coordinators of a job keep, in memory. It can be made to fail.
type store struct {
	mu      sync.Mutex
	entries map[string][]byte
	fence   id.Fence // of who holds the lock
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

// apply makes changes durable. s.mu is held.
func (s *store) apply(changes []cluster.Change) {
	for _, c := range changes {
		if c.Value == nil {
			delete(s.entries, c.Key)
		} else {
			s.entries[c.Key] = c.Value
		}
	}
}

// held is the store as one coordinator has it.
type held struct {
	*store
	of id.Fence
}

func (h *held) check() error {
	if h.of != h.fence {
		return fault.E(fault.Fenced, fault.At("store"), fault.Got("a lock that was lost"))
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
	h.apply(changes)
	return nil
}

// alive is who lives.
type alive struct {
	mu       sync.Mutex
	trainers map[cluster.Member]id.Incarnation
	more     chan struct{} // closed by the next set; nil: nobody waits
}

func trainerOf(rank uint32) cluster.Member {
	return cluster.Member{Role: job.Role_TRAINER, Index: int(rank)}
}

func (a *alive) set(rank uint32, incarnation uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.trainers == nil {
		a.trainers = map[cluster.Member]id.Incarnation{}
	}
	a.trainers[trainerOf(rank)] = id.Incarnation(incarnation)
	if a.more != nil {
		close(a.more)
		a.more = nil
	}
}

// await waits until a trainer lives.
func (a *alive) await(ctx context.Context, rank uint32) error {
	for {
		a.mu.Lock()
		_, there := a.trainers[trainerOf(rank)]
		if a.more == nil {
			a.more = make(chan struct{})
		}
		more := a.more
		a.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (a *alive) remove(rank uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.trainers, trainerOf(rank))
}

func (a *alive) list(context.Context) (map[cluster.Member]id.Incarnation, error) {
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
