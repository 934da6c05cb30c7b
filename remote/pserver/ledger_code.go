package pserver

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// Encode returns the ledger as bytes: a LedgerResponse with the ranges of every pass.
func (l *Ledger) Encode() ([]byte, error) {
	m := &rpc.LedgerResponse{}
	for _, c := range l.Counts() {
		p := passMessage(c)
		p.Committed = rangeMessages(l.passes[c.Pass].committed)
		m.Passes = append(m.Passes, p)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	return b, fault.Wrap(fault.Internal, "ledger", err)
}

// DecodeLedger reads what Encode wrote. It refuses anything that Encode does not write.
func DecodeLedger(b []byte) (*Ledger, error) {
	const longest = 32 // bytes of an encoded range
	if len(b) > longest*maxRanges {
		return nil, &fault.Fault{Kind: fault.TooLarge, Where: "ledger", Got: fmt.Sprintf("%d bytes", len(b)), Want: fmt.Sprintf("at most %d", longest*maxRanges)}
	}
	m := &rpc.LedgerResponse{}
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, fault.Wrap(fault.Corrupt, "ledger", err)
	}
	l := &Ledger{}
	for i, p := range m.Passes {
		list := rangesOf(p.Committed)
		if err := l.Commit(p.Pass, list); err != nil {
			return nil, fault.Wrap(fault.Corrupt, "ledger", err)
		}
		have := l.passes[p.Pass]
		if i > 0 && m.Passes[i-1].Pass >= p.Pass || have == nil || !slices.Equal(have.committed, list) || have.again != 0 || have.records != p.Records || p.Again < 0 {
			return nil, &fault.Fault{Kind: fault.Corrupt, Where: "ledger", Got: fmt.Sprintf("pass %d of %d ranges with %d records, %d again", p.Pass, len(list), p.Records, p.Again),
				Want: "passes in order, with ranges that do not touch and the number of their records"}
		}
		have.again = p.Again
	}
	return l, nil
}

func passMessage(c PassCount) *rpc.PassLedger {
	return &rpc.PassLedger{Pass: c.Pass, Records: c.Records, Again: c.Again}
}

func rangeMessages(list []Range) []*rpc.RecordRange {
	out := make([]*rpc.RecordRange, len(list))
	for i, r := range list {
		out[i] = &rpc.RecordRange{From: r.From, To: r.To}
	}
	return out
}

func rangesOf(list []*rpc.RecordRange) []Range {
	out := make([]Range, len(list))
	for i, r := range list {
		out[i] = Range{From: r.GetFrom(), To: r.GetTo()}
	}
	return out
}
