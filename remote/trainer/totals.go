package trainer

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/timing"
	"github.com/edl-go/edl/remote/wire"
)

// totals are the sums and means over the batch that the trainers of a round share (ops.ShareTotals). Server 0 collects them. It may be lost in the round: so each
// request, and the declaration, has the answers before.
type totals struct {
	comm  *Comm
	known []*rpc.PlaceTotals // answers in the step, by place
}

// ShareTotals implements ops.TotalsSharer for a trainer without devices. It waits for the trainers that have the other rows of the batch, as long as a call to a server may.
func (t *totals) ShareTotals(ctx context.Context, place int, own ops.Totals, _ func([]ops.Totals) (ops.Totals, error)) (all []ops.Totals, err error) {
	c := t.comm
	if place > len(t.known) {
		return nil, fault.E(fault.InvalidProgram, fault.Op("share_totals"), fault.Gotf("place %d", place), fault.Wantf("place %d", len(t.known)))
	}
	if place == len(t.known) {
		c.Times.Aside(timing.Await)
		answer, err := t.ask(ctx, place, own)
		c.Times.Back()
		if err != nil {
			return nil, err
		}
		t.known = append(t.known, answer)
	}
	parts := t.known[place].GetParts()
	if !slices.ContainsFunc(parts, func(p *rpc.Totals) bool { return id.Rank(p.Rank) == c.Rank }) {
		return nil, fault.E(fault.Internal, fault.At(serverName(0)), fault.Gotf("sums and means of round %d without those of trainer %d", c.round(), c.Rank))
	}
	for _, p := range parts {
		all = append(all, ops.Totals{Rows: p.Rows, Over: p.Over, Values: p.Values})
	}
	return all, nil
}

// ask sends server 0 what the trainer has, and returns what all have.
func (t *totals) ask(ctx context.Context, place int, own ops.Totals) (answer *rpc.PlaceTotals, err error) {
	c := t.comm
	m := &rpc.ShareTotalsRequest{Place: uint32(place), Batch: c.step.Batch, Known: t.known, Own: &rpc.Totals{Rank: uint32(c.Rank), Rows: own.Rows, Over: own.Over, Values: own.Values}}
	err = c.call(ctx, 0, fmt.Sprintf("sums and means of round %d", c.round()), func(ctx context.Context, to rpc.ParameterServerClient, retry id.Retry) error {
		m.Id = c.identity.Of(c.Rank, c.round(), retry)
		r, err := to.ShareTotals(ctx, m, grpc.WaitForReady(false))
		answer = r.GetTotals()
		return wire.FromStatus(serverName(0), err)
	})
	return answer, err
}
