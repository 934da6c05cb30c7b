package wire

import (
	"bytes"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
)

// Identity is the part of a message's identity that stays the same until its sender joins another generation or hears of another coordinator.
type Identity struct {
	Job        string
	Program    []byte // SHA-256 of the user's program
	Generation uint64 // that the sender is a member of, 0 for none
	Fence      uint64 // the highest revision of the coordinator's lock that the sender knows
}

// Of returns the identity of one message.
func (i Identity) Of(rank uint32, round uint64, attempt uint32) *rpc.Identity {
	return &rpc.Identity{Job: i.Job, ProgramHash: i.Program, Generation: i.Generation, Rank: rank, Round: round, Attempt: attempt, Fence: i.Fence}
}

// Check refuses a message of another job or program (fault.Foreign). The receiver itself checks generation and fence.
func (i Identity) Check(id *rpc.Identity) error {
	switch {
	case id == nil:
		return fault.E(fault.Foreign, fault.Got("a message without identity"), fault.Want("job "+i.Job))
	case id.Job != i.Job:
		return fault.E(fault.Foreign, fault.Got("job "+fault.Quote(id.Job)), fault.Want("job "+i.Job))
	case !bytes.Equal(id.ProgramHash, i.Program):
		return fault.E(fault.Foreign, fault.Gotf("program %.12x", id.ProgramHash), fault.Wantf("program %.12x", i.Program))
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
