package role

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// placed is the placement that a role is started with.
func placed(spec *job.RoleSpec) *job.Placement {
	if p := spec.Placed; p != nil {
		return p
	}
	return &job.Placement{Pservers: spec.Spec.Pservers}
}

// placements are those that a coordinator knows, with the programs of trainers. It is safe for concurrent use.
type placements struct {
	mu    sync.Mutex
	first *job.Placement
	known map[uint64]*job.Placement
}

// newPlacements knows the placements that a coordinator is started with.
func newPlacements(r *runner) *placements {
	first := proto.CloneOf(placed(r.spec))
	first.Program, first.SaveProgram = r.spec.Program, r.spec.SaveProgram
	ps := &placements{first: first, known: map[uint64]*job.Placement{first.Number: first}}
	if next := r.spec.Next; next != nil {
		ps.add(next)
	}
	return ps
}

// add enters a placement that the job may change to.
func (ps *placements) add(p *job.Placement) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.known[p.Number] = p
}

// of returns the placement that is durable; nil: that of the start.
func (ps *placements) of(last *state.Placed) (*job.Placement, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if last == nil {
		return ps.first, nil
	}
	p := ps.known[last.Number]
	if p == nil || p.Pservers != last.Pservers {
		return nil, fault.E(fault.LostState, fault.At("coordinator"), fault.Gotf("placement %d of %d pservers, whose programs it does not know", last.Number, last.Pservers))
	}
	return p, nil
}

// A host is a pserver whose placement may change while its process stays. It passes calls on to the server of the placement that the job has. When the job is
// about to change, it has a second one, which takes rows from the first:
//
//	Prepare of placement 2 --> next: runs its program, has no state yet
//	Restore, ahead, of 2 ----> next copies from active and from other processes, while those go on
//	Restore of placement 2 --> next takes its state, from active and from other processes
//	Freeze of placement 2 ---> the job has changed: next is active. The one before only sends rows that others lack
//	Arrived, all, of 2 ------> nobody lacks rows: the one before ends
//	Freeze of placement 1 ---> it has not; next stays until another one is prepared
type host struct {
	rpc.UnsafeParameterServerServer // a call that is not passed on does not compile
	passing
	runner *runner
	cfg    pserver.Config  // of every server, but for what depends on the placement
	ctx    context.Context // of the servers
	begun  chan struct{}   // closed when ctx is known

	mu     sync.Mutex
	active *served
	next   *served // nil: none
	before *served // of the placement before, as long as others may lack rows that it has; nil: none do
}

// served is the server of one placement.
type served struct {
	*pserver.Server
	number uint64
	empty  bool // its state comes from other servers
	stop   context.CancelFunc
	done   chan struct{} // closed when it has ended
	err    error         // how
}

// ended reports whether the server does not run any more.
func (s *served) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// retire ends a server that another one has followed, or that is not needed.
func (s *served) retire() {
	s.Fail(fault.E(fault.Superseded, fault.Gotf("a message for placement %d", s.number), fault.Want("one for the next placement")))
	s.stop()
}

// newHost is the host of a pserver that does not run yet.
func newHost(r *runner, cfg pserver.Config) *host {
	h := &host{runner: r, cfg: cfg, begun: make(chan struct{})}
	h.active, h.passing = h.server(placed(r.spec), nil), passing{h.serving}
	return h
}

// server makes the server of a placement. same is the one of the placement before in this process; nil: none.
func (h *host) server(to *job.Placement, same *pserver.Server) *served {
	cfg := h.cfg
	cfg.Servers, cfg.Before, cfg.After, cfg.Same = int(to.Pservers), to.Before, to.Follows, same
	if same != nil { // a standby that has taken over follows nobody any more
		cfg.Follows = nil
	}
	return &served{Server: pserver.New(cfg), number: to.Number, empty: to.Before != nil, stop: func() {}, done: make(chan struct{})}
}

// begin runs the first server. All end with ctx.
func (h *host) begin(ctx context.Context, p *program.Program) {
	h.ctx = ctx
	close(h.begun)
	h.active.begin(ctx, h.runner, p)
}

// begin runs the program of the server until that ends, or ctx does.
func (s *served) begin(ctx context.Context, r *runner, p *program.Program) {
	ctx, s.stop = context.WithCancel(ctx)
	go func() {
		defer close(s.done)
		defer s.stop()
		local := executor.New(r.recording.options(executor.WithServer(s.Server), executor.WithStage(program.StagePServer), executor.WithLogger(r.log))...)
		load := r.start().loadPieces
		if s.empty {
			load = emptyPieces
		}
		err := load(local.Scope(), p)
		if err == nil {
			_, err = local.Run(ctx, p, nil)
		}
		if err != nil {
			s.Fail(err) // calls that wait for the program fail with this error
			err = fenced(ctx, err)
		} else {
			select {
			case <-s.Released():
			case <-ctx.Done(): // it has done all that it had to do
			}
		}
		s.err = errors.Join(err, local.Close())
	}()
}

// emptyPieces gives a pserver's variables memory, so that the startup program makes no values that others take the place of.
func emptyPieces(scope *executor.Scope, p *program.Program) error {
	service, err := serviceOf(p)
	if err != nil {
		return err
	}
	for _, slice := range service.Slices {
		declared, ok := p.Global().Var(slice.Name)
		if !ok {
			return fault.E(fault.InvalidProgram, fault.Var(slice.Name), fault.Got("a slice that block 0 does not declare"))
		}
		t, err := tensor.New(declared.DType, declared.Dims...)
		if err == nil {
			err = scope.Set(slice.Name, t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wait returns when the server of the placement that the job has at last has ended, and how.
func (h *host) wait() error {
	for {
		s := h.serving()
		<-s.done
		if h.serving() == s {
			return s.err
		}
	}
}

// end ends what is prepared and not needed any more, and returns when nothing of it runs.
func (h *host) end() {
	h.drop()
	h.dropNext()
}

// dropNext ends what is prepared.
func (h *host) dropNext() {
	h.mu.Lock()
	next := h.next
	h.next = nil
	h.mu.Unlock()
	if next != nil {
		next.retire()
		<-next.done
	}
}

// drop ends the server of the placement before, and returns when nothing of it runs.
func (h *host) drop() {
	h.mu.Lock()
	before := h.before
	h.before = nil
	h.mu.Unlock()
	if before != nil {
		before.retire()
		<-before.done
	}
}

// lending is the server that has rows of a placement for others, or the one that says why there is none.
func (h *host) lending(number uint64) *served {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.before != nil && h.before.number == number {
		return h.before
	}
	return h.active
}

// serving is the server of the placement that the job has, as far as this process knows.
func (h *host) serving() *served {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.active
}

// of returns the server of a placement.
func (h *host) of(number uint64) (*served, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case number == h.active.number:
		return h.active, nil
	case h.next != nil && number == h.next.number:
		return h.next, nil
	case number < h.active.number:
		return nil, fault.E(fault.Fenced, fault.Gotf("a message of a coordinator for placement %d", number), fault.Wantf("placement %d", h.active.number))
	}
	return nil, fault.E(fault.LostState, fault.Gotf("a pserver of placement %d", h.active.number), fault.Wantf("one that has the state of placement %d", number))
}

// Prepare implements the rpc.
func (h *host) Prepare(stream grpc.ClientStreamingServer[rpc.Piece, rpc.PrepareResponse]) error {
	m := &rpc.PrepareRequest{}
	if err := wire.ReceiveFrom("the listener", stream, m, wire.MaxPlacement, h.runner.identity.Check); err != nil {
		return err
	}
	select {
	case <-h.begun:
	case <-stream.Context().Done():
		return context.Cause(stream.Context())
	}
	s, err := h.prepare(m.To)
	if err == nil {
		err = pserver.Serves(stream.Context(), s.Server)
	}
	if err != nil {
		return err
	}
	return stream.SendAndClose(&rpc.PrepareResponse{})
}

// prepare finds or starts the server of a placement. It takes the place of another one that is prepared.
func (h *host) prepare(to *job.Placement) (*served, error) {
	if s, err := h.of(to.GetNumber()); errors.Is(err, fault.Fenced) || err == nil && !s.ended() {
		return s, err
	}
	h.dropNext()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next != nil {
		return nil, fault.E(fault.Unavailable, fault.Got("two placements that are prepared at the same time"), fault.Want("one after the other"))
	}
	p, err := h.runner.program(to.GetProgram(), program.StagePServer)
	if err != nil {
		return nil, err
	}
	h.next = h.server(to, h.active.Server)
	h.next.begin(h.ctx, h.runner, p)
	return h.next, nil
}

// Freeze implements the rpc. A coordinator names the placement that is durable.
func (h *host) Freeze(ctx context.Context, m *rpc.FreezeRequest) (*rpc.FreezeResponse, error) {
	if err := h.runner.identity.Check(m.Id); err != nil {
		return nil, err
	}
	s, err := h.of(m.Placement)
	if err != nil {
		return nil, err
	}
	var before *served
	h.mu.Lock()
	if s == h.next {
		before, h.before, h.active, h.next = h.before, h.active, s, nil
	}
	h.mu.Unlock()
	if before != nil {
		before.retire()
	}
	return s.Freeze(ctx, m)
}

// Arrived implements the rpc.
func (h *host) Arrived(ctx context.Context, m *rpc.ArrivedRequest) (*rpc.ArrivedResponse, error) {
	if err := h.runner.identity.Check(m.Id); err != nil {
		return nil, err
	}
	s, err := h.of(m.Placement)
	if err != nil {
		return nil, err
	}
	if !m.All {
		return s.Arrived(ctx, m)
	}
	if s == h.serving() {
		h.drop()
		pserver.ForgetBefore(ctx, s.Server)
	}
	return &rpc.ArrivedResponse{}, nil
}

// CopyRows implements the rpc.
func (h *host) CopyRows(ctx context.Context, m *rpc.CopyRequest) (*rpc.CopyResponse, error) {
	return h.lending(m.Placement).CopyRows(ctx, m)
}

// GetVariable implements the rpc.
func (h *host) GetVariable(m *rpc.GetRequest, stream grpc.ServerStreamingServer[rpc.VariableChunk]) error {
	if m.Moves {
		return h.lending(m.Placement).GetVariable(m, stream)
	}
	return h.serving().GetVariable(m, stream)
}

// Follow implements the rpc. A standby of another placement has other slices: it waits until the job has that placement, or until it is ended.
func (h *host) Follow(ctx context.Context, m *rpc.FollowRequest) (*rpc.FollowResponse, error) {
	s := h.serving()
	if m.Placement != s.number {
		return nil, fault.E(fault.Unavailable, fault.Gotf("a standby of placement %d", m.Placement), fault.Wantf("placement %d", s.number))
	}
	return s.Follow(ctx, m)
}

// Restore implements the rpc.
func (h *host) Restore(ctx context.Context, m *rpc.RestoreRequest) (*rpc.RestoreResponse, error) {
	if err := h.runner.identity.Check(m.Id); err != nil {
		return nil, err
	}
	s, err := h.of(m.Placement)
	if err != nil {
		return nil, err
	}
	return s.Restore(ctx, m)
}

// passing passes on the calls that concern the placement that the job has.
type passing struct{ now func() *served }

func (p passing) SendVariable(stream grpc.ClientStreamingServer[rpc.VariableChunk, rpc.SendResponse]) error {
	return p.now().SendVariable(stream)
}

func (p passing) SendBarrier(ctx context.Context, m *rpc.BarrierRequest) (*rpc.BarrierResponse, error) {
	return p.now().SendBarrier(ctx, m)
}

func (p passing) GetRows(m *rpc.RowsRequest, stream grpc.ServerStreamingServer[rpc.VariableChunk]) error {
	return p.now().GetRows(m, stream)
}

func (p passing) TakeOver(ctx context.Context, m *rpc.TakeOverRequest) (*rpc.TakeOverResponse, error) {
	return p.now().TakeOver(ctx, m)
}

func (p passing) OpenData(ctx context.Context, m *rpc.OpenDataRequest) (*rpc.OpenDataResponse, error) {
	return p.now().OpenData(ctx, m)
}

func (p passing) Resume(ctx context.Context, m *rpc.ResumeRequest) (*rpc.ResumeResponse, error) {
	return p.now().Resume(ctx, m)
}

func (p passing) Ledger(m *rpc.LedgerRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	return p.now().Ledger(m, stream)
}

func (p passing) Hold(ctx context.Context, m *rpc.HoldRequest) (*rpc.HoldResponse, error) {
	return p.now().Hold(ctx, m)
}

func (p passing) Pace(ctx context.Context, m *rpc.PaceRequest) (*rpc.PaceResponse, error) {
	return p.now().Pace(ctx, m)
}

func (p passing) Counted(ctx context.Context, m *rpc.CountedRequest) (*rpc.CountedResponse, error) {
	return p.now().Counted(ctx, m)
}

func (p passing) ShareTotals(ctx context.Context, m *rpc.ShareTotalsRequest) (*rpc.ShareTotalsResponse, error) {
	return p.now().ShareTotals(ctx, m)
}

func (p passing) Cut(ctx context.Context, m *rpc.CutRequest) (*rpc.CutResponse, error) {
	return p.now().Cut(ctx, m)
}

func (p passing) Complete(ctx context.Context, m *rpc.CompleteRequest) (*rpc.CompleteResponse, error) {
	return p.now().Complete(ctx, m)
}

func (p passing) Status(ctx context.Context, m *rpc.StatusRequest) (*rpc.StatusResponse, error) {
	return p.now().Status(ctx, m)
}
