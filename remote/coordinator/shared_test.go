package coordinator_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
)

// A global batch has so many rows; the gradient of a row is its number, so that every round moves the parameter by their mean, whoever computes them.
const (
	batchRows = 10
	batchMean = 4.5
	lastRound = 6
)

// shared is a sync job over a real pserver, whose trainers take part message by message.
type shared struct {
	*home
	server *rig.Server
	mu     sync.Mutex
	now    running
	sizes  map[int]bool // of the generations that trained
}

func newShared(t *testing.T, least, most int) *shared {
	cfg := config(least)
	cfg.TrainersMax = most
	h := newHome(t, cfg)
	j := &shared{home: h, server: rig.New(t, rig.Config(max(least, most))), sizes: map[int]bool{}}
	return j
}

// trainer is one process. It trains up to lastRound, unless act, which is called when it has sent its gradient to a round, ends it.
func (j *shared) trainer(rank uint32, incarnation uint64, act func(generation, round uint64) (die bool)) error {
	t := rig.Trainer{Client: j.server.Client, Rank: rank}
	ctx := j.t.Context()
	for last := uint64(0); ; {
		j.live.set(rank, incarnation)
		r, err := j.current().client.Join(ctx, &rpc.JoinRequest{Id: idOf(last, rank, 0), Incarnation: incarnation})
		if errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Canceled) {
			continue
		}
		if err != nil || r.DataEnded { // it was about to leave when the others had
			return err
		}
		last = r.Generation
		j.mu.Lock()
		j.sizes[int(r.Trainers)] = true
		j.mu.Unlock()
		died, err := j.rounds(t, r, act)
		if died || err == nil || !errors.Is(err, fault.Superseded) {
			return err
		}
	}
}

// rounds trains in one generation.
func (j *shared) rounds(t rig.Trainer, r *rpc.JoinResponse, act func(generation, round uint64) bool) (died bool, err error) {
	ctx := j.t.Context()
	for round := r.Round; round < lastRound; round++ {
		from, to := batchRows*r.Position/r.Trainers, batchRows*(r.Position+1)/r.Trainers
		mean := float32(from+to-1) / 2
		who := idOf(r.Generation, t.Rank, round)
		who.Fence = r.Fence
		if _, err := t.SendAs(ctx, who, "w0@GRAD", rig.Filled(1, mean)); err != nil {
			return false, err
		}
		if act != nil && act(r.Generation, round) {
			return true, nil
		}
		barrier := &rpc.BarrierRequest{Id: who, Rows: int64(to - from), Variables: 1, Records: []*rpc.RecordRange{{From: int64(from), To: int64(to)}},
			Pass: int32(round)}
		if _, err := t.Client.SendBarrier(ctx, barrier); err != nil {
			return false, err
		}
		next := idOf(r.Generation, t.Rank, round+1)
		next.Fence = r.Fence
		if _, _, err := t.GetAs(ctx, &rpc.GetRequest{Id: next, Name: "w0"}, 1); err != nil {
			return false, err
		}
	}
	if _, err := t.Client.Complete(ctx, &rpc.CompleteRequest{Id: idOf(r.Generation, t.Rank, lastRound)}); err != nil {
		return false, err
	}
	_, err = j.current().client.Leave(ctx, &rpc.LeaveRequest{Id: idOf(r.Generation, t.Rank, lastRound)})
	return false, err
}

func (j *shared) current() running {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.now
}
