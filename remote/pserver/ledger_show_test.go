package pserver_test

import (
	"testing"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
)

// A ledger is shown that is larger than one message of the transport may be: one of every second record, with large numbers.
func TestLargeLedger(t *testing.T) {
	const steps, ranges, first = 2, 550_000, int64(1) << 40
	s := rig.Start(t, rig.Config(1), rig.SGD(0, false, 1, 2))
	a := rig.Trainer{Client: s.Client}
	for step := range int64(steps) {
		d := &rpc.Declared{Rows: ranges}
		for i := range int64(ranges) {
			from := first + 2*(step*ranges+i)
			d.Records = append(d.Records, &rpc.RecordRange{From: from, To: from + 1})
		}
		if _, err := a.Send(t.Context(), uint64(step), "w0@GRAD", rig.Filled(2, 1)); err != nil {
			t.Fatal(err)
		}
		if err := a.Declare(t.Context(), uint64(step), d, 1); err != nil {
			t.Fatal(err)
		}
	}
	l, err := wire.Ledger(t.Context(), "pserver 0", s.Client, &rpc.LedgerRequest{Job: rig.Identity.Job, Ranges: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Passes) != 1 || l.Passes[0].Records != steps*ranges || len(l.Passes[0].Committed) != steps*ranges {
		t.Errorf("the ledger has %d records in %d ranges", l.Passes[0].GetRecords(), len(l.Passes[0].GetCommitted()))
	}
	for i, r := range l.Passes[0].GetCommitted() {
		if from := first + 2*int64(i); r.From != from || r.To != from+1 {
			t.Fatalf("range %d is %v", i, r)
		}
	}
}
