package wire

import (
	"bytes"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
)

// Identity is the part of a message's identity that stays the same until its sender joins another generation or hears of another coordinator.
type Identity struct {
	Job        string
	Program    []byte        // SHA-256 of the user's program
	Generation id.Generation // that the sender is a member of, 0 for none
	Fence      id.Fence      // the highest one that the sender knows; a coordinator's own
}

// Of returns the identity of one message.
func (i Identity) Of(rank id.Rank, round id.Round, retry id.Retry) *rpc.Identity {
	return &rpc.Identity{Job: i.Job, ProgramHash: i.Program, Generation: uint64(i.Generation), Rank: uint32(rank), Round: uint64(round),
		Retry: uint32(retry), Fence: uint64(i.Fence)}
}

// SenderOf returns what the identity of a message tells of its sender. The receiver has checked the identity.
func SenderOf(m *rpc.Identity) id.Sender {
	return id.Sender{Rank: id.Rank(m.GetRank()), Generation: id.Generation(m.GetGeneration()), Round: id.Round(m.GetRound()),
		Fence: id.Fence(m.GetFence())}
}

// Check refuses a message of another job or program (fault.Foreign). The receiver itself checks generation and fence.
func (i Identity) Check(m *rpc.Identity) error {
	switch {
	case m == nil:
		return fault.E(fault.Foreign, fault.Got("a message without identity"), fault.Want("job "+i.Job))
	case m.Job != i.Job:
		return fault.E(fault.Foreign, fault.Got("job "+fault.Quote(m.Job)), fault.Want("job "+i.Job))
	case !bytes.Equal(m.ProgramHash, i.Program):
		return fault.E(fault.Foreign, fault.Gotf("program %.12x", m.ProgramHash), fault.Wantf("program %.12x", i.Program))
	}
	return nil
}

// Ranges returns the wire form of ranges of records.
func Ranges(list []ranges.Range) []*rpc.RecordRange {
	out := make([]*rpc.RecordRange, len(list))
	for i, r := range list {
		out[i] = &rpc.RecordRange{From: r.From, To: r.To}
	}
	return out
}

// RangesOf returns the ranges of records of a message, unchecked. ranges.Of makes a set of them and leaves out empty and reversed ranges.
func RangesOf(list []*rpc.RecordRange) []ranges.Range {
	out := make([]ranges.Range, len(list))
	for i, r := range list {
		out[i] = ranges.Range{From: r.GetFrom(), To: r.GetTo()}
	}
	return out
}
