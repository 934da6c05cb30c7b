package pserver

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// Totals are sums and means over the batch of a round that trainers share in the middle of a step, at one place of their program or some after each other
// (ops.ShareTotals). Server 0 collects what each trainer has made of its rows, and answers all when the rows add up to the batch.
//
//		trainer                      server 0
//		Shared, place 0 -----------> holds it until all rows of the batch are there
//		        <------------------- the totals of all trainers, in rank order
//		Shared, place 1 ...
//		Declared ------------------> the round is applied, and the totals are forgotten
//
//	  - A round that is given up is trained again, so a new generation begins without totals. What trainers of the ended one ask for is refused as superseded.
//	  - A standby that takes over lacks what was shared before. So a trainer sends the totals of earlier places with those of the next one, and all of them with its
//	    declaration: whoever has gone on from a place brings what the others there wait for. Those who still wait at the place send their own again.
//	  - The wait ends with the deadline of the round, which has begun with the first totals.
type (
	// Shared says what a trainer has made of its rows at a place of the round.
	Shared struct {
		Sender
		Place int
		Batch int64 // rows of the batch
		Own   ops.Totals
		Known [][]RankTotals // of the places before
	}
	// RankTotals are the totals of a trainer.
	RankTotals struct {
		Rank id.Rank
		ops.Totals
	}
)

func (Shared) event() {}

// sharing is what a server knows of the totals of the open round, by place. All places but the last are whole.
type sharing struct{ shared []totalsPlace }

// A totalsPlace has the totals of trainers at one place, in rank order.
type totalsPlace struct {
	parts []RankTotals
	rows  int64 // of parts
	batch int64 // 0: of a place that is known to be whole
}

func (p *totalsPlace) whole() bool { return p.rows == p.batch || p.batch == 0 }

// find returns where the totals of a rank are, or belong.
func (p *totalsPlace) find(rank id.Rank) (int, bool) {
	return slices.BinarySearchFunc(p.parts, rank, func(t RankTotals, rank id.Rank) int { return int(t.Rank) - int(rank) })
}

// know notes totals that a sender has been told before. It reports whether somebody may wait for them.
func (s *sharing) know(known [][]RankTotals) (news bool) {
	for i, parts := range known {
		switch {
		case i == len(s.shared):
			s.shared = append(s.shared, totalsPlace{parts: parts})
		case !s.shared[i].whole():
			s.shared[i] = totalsPlace{parts: parts}
		default:
			continue
		}
		news = true
	}
	return news
}

// waits reports whether a rank waits for totals of others.
func (s *sharing) waits(rank id.Rank) bool {
	if len(s.shared) == 0 || s.shared[len(s.shared)-1].whole() {
		return false
	}
	_, has := s.shared[len(s.shared)-1].find(rank)
	return has
}

// share notes what a member has made of its rows. It holds the event until the rows of all are there.
func share(s *sharing, e Shared) (Effects, error) {
	at := len(e.Known)
	if e.Place != at {
		return Effects{}, fault.E(fault.InvalidArgument, fault.Gotf("totals of place %d of trainer %d, with those of %d places before", e.Place, e.Rank, at), fault.Want("those of all places before"))
	}
	var p totalsPlace
	if at < len(s.shared) {
		p = s.shared[at]
	} else {
		p.batch = e.Batch
	}
	i, has := p.find(e.Rank)
	if !has {
		if len(p.parts) > 0 && len(p.parts[0].Values) != len(e.Own.Values) || e.Batch < 1 || p.batch != e.Batch || e.Own.Rows < 1 || e.Own.Rows > p.batch-p.rows {
			return Effects{}, fault.E(fault.InvalidArgument, fault.Gotf("totals of %d rows of a batch of %d, beside those of %d of %d", e.Own.Rows, e.Batch, p.rows, p.batch),
				fault.Want("a part of one batch, which nobody else has"))
		}
		p.parts, p.rows = slices.Insert(p.parts, i, RankTotals{e.Rank, e.Own}), p.rows+e.Own.Rows
	}
	f := Effects{Shared: s.know(e.Known), Hold: !p.whole()}
	if !has {
		s.shared = append(s.shared[:at], p)
		f.Shared = f.Shared || p.whole()
	}
	return f, nil
}

// A sharer answers trainers that share totals.
type sharer struct{ core *core }

// ShareTotals implements the rpc.
func (s sharer) ShareTotals(ctx context.Context, m *rpc.ShareTotalsRequest) (*rpc.ShareTotalsResponse, error) {
	c := s.core
	if err := c.cfg.Identity.Check(m.Id); err != nil {
		return nil, c.refuse(err)
	}
	if err := c.serves(ctx); err != nil {
		return nil, err
	}
	if c.rounds == nil || c.cfg.Index > 0 {
		return nil, c.refuse(fault.E(fault.Unsupported, fault.At(c.Where), fault.Got("totals of a round"), fault.Want("those of a sync job, at pserver 0")))
	}
	e := Shared{Sender: Sender(wire.SenderOf(m.Id)), Place: int(m.Place), Batch: m.Batch}
	own, err := totalsOf(m.Own)
	if err == nil {
		e.Own = own.Totals
		e.Known, err = placesOf(m.Known)
	}
	if err != nil {
		return nil, c.refuse(err)
	}
	c.Lock()
	c.heard.note(e.Rank)
	c.Unlock()
	if _, err := c.decide(ctx, e); err != nil {
		return nil, err
	}
	c.Lock()
	var parts []RankTotals
	if r := c.rounds; r.Round() == e.Round && r.Generation() == e.Generation && e.Place < len(r.shared) {
		parts = r.shared[e.Place].parts
	}
	c.Unlock()
	if len(parts) == 0 { // others have gone on since: who has asked has asked again, and was answered
		return nil, c.refuse(fault.E(fault.Stale, fault.At(c.Where), fault.Gotf("a question for the totals of round %d", e.Round), fault.Want("the open round")))
	}
	r := &rpc.ShareTotalsResponse{Totals: &rpc.PlaceTotals{}}
	for _, t := range parts {
		r.Totals.Parts = append(r.Totals.Parts, &rpc.Totals{Rank: uint32(t.Rank), Rows: t.Rows, Over: t.Over, Values: t.Values})
	}
	return r, nil
}

// forTotals is the wait for totals of a round: for the trainers that have neither shared theirs nor declared the round.
func forTotals(c *core, e Shared) waits.Wait {
	return waits.Wait{Who: c.name, Tell: func(w *waits.Wait) {
		w.What = "sums and means of round " + e.Round.String()
		c.heard.name(w, c.rounds.Missing())
	}}
}

// totalsOf reads the totals of a trainer.
func totalsOf(m *rpc.Totals) (RankTotals, error) {
	t := RankTotals{id.Rank(m.GetRank()), ops.Totals{Rows: m.GetRows(), Over: m.GetOver(), Values: m.GetValues()}}
	if t.Rows < 1 || len(t.Over) < 1 || len(t.Over) > ops.MaxTotals || len(t.Values) > ops.MaxTotals || slices.ContainsFunc(t.Over, func(n int64) bool { return n < 0 }) {
		return t, fault.E(fault.InvalidArgument, fault.Gotf("totals of %d rows: %d of them, with %d numbers", t.Rows, len(t.Over), len(t.Values)),
			fault.Wantf("at least one row, and 1 to %d numbers", ops.MaxTotals))
	}
	return t, nil
}

// placesOf reads the totals of all trainers by place.
func placesOf(list []*rpc.PlaceTotals) (out [][]RankTotals, err error) {
	if len(list) > ops.MaxTotalsPlaces {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("totals of %d places", len(list)), fault.Wantf("at most %d", ops.MaxTotalsPlaces))
	}
	for _, place := range list {
		var parts []RankTotals
		for _, m := range place.GetParts() {
			t, err := totalsOf(m)
			if err == nil && len(parts) > 0 && t.Rank <= parts[len(parts)-1].Rank {
				err = fault.E(fault.InvalidArgument, fault.Gotf("totals of trainer %d behind those of trainer %d", t.Rank, parts[len(parts)-1].Rank), fault.Want("rank order"))
			}
			if err != nil {
				return nil, err
			}
			parts = append(parts, t)
		}
		if len(parts) == 0 {
			return nil, fault.E(fault.InvalidArgument, fault.Got("a place without totals"), fault.Want("those of a trainer"))
		}
		out = append(out, parts)
	}
	return out, nil
}
