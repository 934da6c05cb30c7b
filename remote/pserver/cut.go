package pserver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// cuts make a server's parts of checkpoints. The goroutine that applies rounds notices that the version of a cut is there. Then the slices are frozen (frozen.go),
// and written while rounds go on, which keep what they are about to change and what is not written yet:
//
//	Cut asked -> waiting for its round -> frozen -> writing -> told to who has asked
//
// In an async job Hold comes before Cut, and the cut waits for its steps, see hold.go.
//
// The lock of core guards current.
type cuts struct {
	service *comm.Service
	freezer *freezer
	current *cut          // the last that was asked for; nil: none
	since   since         // belongs to who has the token of busy
	busy    chan struct{} // has a token while a cut is written
	held    atomic.Int64  // nanoseconds that updates have waited for what was kept of the last cut
	longest atomic.Int64  // nanoseconds of the longest of these waits
}

// cutDeadline is Config.CutDeadline where nothing else is said.
const cutDeadline = 10 * time.Minute

// A cut is one checkpoint.
type cut struct {
	round       id.Round // sync
	store, name string
	bases       []string      // checkpoints that stay
	begun       bool          // what it is to have is there
	at          time.Time     // since when
	done        chan struct{} // closed when the part is durable, or will never be
	cancel      context.CancelFunc

	// Of an async job, see hold.go.
	hold    string      // its name
	held    time.Time   // since when steps are
	late    *time.Timer // ends that; nil: sync
	bounded bool        // it is known which steps it has

	shard  *job.Shard // with what follows, written before done is closed
	base   *job.Shard // nil: shard has all
	ledger []byte     // of server 0
	steps  id.Round   // async, of server 0: in the ledger, and those before the job
	pass   int32      // async, of server 0: the last in the ledger
	err    error
}

func newCuts(service *comm.Service, f *freezer) *cuts {
	return &cuts{service: service, freezer: f, busy: make(chan struct{}, 1)}
}

// Cut implements the rpc.
func (s *Server) Cut(ctx context.Context, m *rpc.CutRequest) (*rpc.CutResponse, error) {
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	c, from := s.core, wire.SenderOf(m.Id)
	var k *cut
	var err error
	c.Lock()
	if c.rounds != nil {
		k, err = s.cuts.ask(c, Sender(from), m)
	} else {
		k, err = s.cuts.bound(c, m)
	}
	version := c.version()
	if c.rounds != nil {
		version = c.rounds.committed()
	}
	c.Unlock()
	switch {
	case err != nil:
		return nil, c.refuse(err)
	case k == nil: // the round is past
		return &rpc.CutResponse{Past: true, Round: uint64(version)}, nil
	}
	select {
	case <-k.done:
	case <-c.ended:
		select {
		case <-k.done:
		default:
			return nil, behindTheEnd(c, k)
		}
	case <-ctx.Done():
		return nil, waits.GaveUp(ctx, c.Where, waits.Wait{What: "the checkpoint " + k.name})
	}
	if k.err != nil {
		return nil, fault.E(fault.KindOf(k.err), fault.At(c.Where), fault.Cause(k.err))
	}
	return &rpc.CutResponse{Shard: k.shard, Base: k.base, Ledger: k.ledger, Steps: uint64(k.steps), Pass: k.pass}, nil
}

// behindTheEnd is the answer to a cut whose round never comes. It is Stale where the job has ended well: then nothing is wrong.
func behindTheEnd(c *core, k *cut) error {
	kind := fault.Stale
	c.Lock()
	defer c.Unlock()
	if c.Err() != nil {
		kind = fault.Unavailable
	}
	return fault.E(kind, fault.At(c.Where), fault.Gotf("a cut at round %d", k.round), fault.Want("one before the last round"))
}

// ask enters a cut, or finds the one that was asked for before. It returns nil where the round is past. The lock of core is held.
func (cs *cuts) ask(c *core, from Sender, m *rpc.CutRequest) (*cut, error) {
	if newest := c.rounds.Fence(); from.Fence < newest {
		return nil, fault.E(fault.Fenced, fault.Gotf("a cut of the coordinator with fence %d", from.Fence), fault.Wantf("fence %d or higher", newest))
	}
	if k := cs.current; k != nil && k.name == m.Name && k.store == m.Store && k.round == from.Round {
		return k, nil
	}
	cs.giveUp()
	if c.rounds.committed() > from.Round { // a round that is being applied has begun to change the version before it
		return nil, nil
	}
	k := &cut{round: from.Round, store: m.Store, name: m.Name, bases: m.Bases, done: make(chan struct{}), cancel: func() {}}
	cs.current = k
	c.toCut.wake()
	return k, nil
}

// giveUp ends the current cut: nobody needs it any more. The lock of core is held.
func (cs *cuts) giveUp() {
	k := cs.current
	if cs.current = nil; k == nil {
		return
	}
	k.cancel() // what is being written
	if k.late != nil {
		k.late.Stop()
	}
	if !k.begun {
		if k.err == nil {
			k.err = fault.E(fault.Superseded, fault.Got("the checkpoint "+k.name), fault.Want("a later one, which was asked for since"))
		}
		close(k.done)
	}
}

// due returns the cut whose round is there now, or whose steps are. The goroutine that applies rounds asks, between two of them, and again when it has the next
// one to apply: a cut may have been asked for meanwhile, and nothing of its version is left afterwards.
func (cs *cuts) due(c *core) *cut {
	c.Lock()
	defer c.Unlock()
	k := cs.current
	if k == nil || k.begun || c.rounds != nil && k.round != c.rounds.Round() || c.updates != nil && !c.updates.there {
		return nil
	}
	k.begun, k.at = true, time.Now()
	if c.ledger != nil {
		k.ledger = c.ledger.Encode()
		for _, pass := range c.ledger.Counts() {
			k.pass = pass.Pass
		}
	}
	if c.updates != nil {
		k.steps = c.updates.steps
	}
	return k
}

// comes reports whether a cut is due after the next round.
func (cs *cuts) comes(c *core) bool {
	c.Lock()
	defer c.Unlock()
	return cs.current != nil && !cs.current.begun && c.rounds != nil && cs.current.round == c.rounds.Round()+1
}

// begin freezes the slices of a cut, and writes them on another goroutine of group. No update is being applied, but the next one may be when begin has returned.
func (cs *cuts) begin(ctx context.Context, group *sync.WaitGroup, c *core, k *cut) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CutDeadline)
	c.Lock()
	k.cancel = cancel
	superseded := cs.current != k
	c.Unlock()
	if superseded {
		cancel()
	}
	select {
	case cs.busy <- struct{}{}:
	default: // an earlier cut is still being written: whoever asked for this one asks again
		cancel()
		k.err = fault.E(fault.Unavailable, fault.Got("a cut while another one is written"), fault.Want("one after the other"))
		close(k.done)
		return
	}
	began := time.Now()
	frozen, err := cs.freezer.freeze()
	group.Go(func() {
		defer cancel()
		defer close(k.done)
		defer func() { <-cs.busy }() // before anybody is told: the next cut may come at once
		if k.err = err; err != nil {
			return
		}
		defer cs.freezer.thaw(frozen)
		k.err = cs.write(ctx, c.cfg.Index, k, frozen)
		held, longest := frozen.held()
		cs.held.Store(int64(held))
		if cs.longest.Store(int64(longest)); k.err == nil {
			c.cfg.Log.Info("part of a checkpoint", "round", k.round, "bytes", k.shard.Bytes, "took", time.Since(began), "held", held, "longest", longest)
		}
	})
	if err == nil {
		group.Go(func() { cs.freezer.ahead(ctx, frozen) })
	}
}

// piecesOf lists the slices of a cut, whole.
func (cs *cuts) piecesOf(frozen *frozenCut) (pieces []checkpoint.Piece, read []*summedSlice) {
	for i, slice := range cs.service.Slices {
		t := frozen.tensors[i]
		dims := slices.Clone(t.Dims())
		if len(dims) > 0 {
			dims[0] = slice.TotalRows
		}
		from := newSummedSlice(frozen.all[i], t)
		read = append(read, from)
		pieces = append(pieces, checkpoint.Piece{Variable: slice.Origin, Dims: dims, FirstRow: slice.FirstRow, Rows: slice.Rows, From: from, DType: t.DType(),
			Striped: slice.Striped, Short: cs.service.HasRoom(slice)})
	}
	return pieces, read
}

// write writes slices as the cut has them, or what has changed in them.
func (cs *cuts) write(ctx context.Context, index int, k *cut, frozen *frozenCut) (err error) {
	store, err := checkpoint.Open(ctx, k.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	pieces, read := cs.piecesOf(frozen)
	changes, only, err := cs.since.changes(ctx, pieces, frozen, k.bases)
	if err != nil {
		return err
	}
	if only {
		pieces = changes
	}
	if k.shard, err = store.WriteShard(ctx, k.name, index, pieces); err != nil {
		return err
	}
	if k.shard.Changes = only; only {
		k.base = proto.CloneOf(cs.since.base)
		k.base.Checkpoint = cs.since.name
	} else {
		cs.since.begin(k.name, k.shard, read)
	}
	return nil
}
