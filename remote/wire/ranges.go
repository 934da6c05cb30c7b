package wire

import (
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
)

// Ranges returns the wire form of ranges of records.
func Ranges(list []ranges.Range) []*rpc.RecordRange {
	out := make([]*rpc.RecordRange, len(list))
	for i, r := range list {
		out[i] = &rpc.RecordRange{From: r.From, To: r.To}
	}
	return out
}

// RangesOf returns the ranges of records of a message, as they are. What comes from outside is not trusted: ranges.Of makes a set of it and leaves out
// what is not a range.
func RangesOf(list []*rpc.RecordRange) []ranges.Range {
	out := make([]ranges.Range, len(list))
	for i, r := range list {
		out[i] = ranges.Range{From: r.GetFrom(), To: r.GetTo()}
	}
	return out
}
