package chaos_test

import (
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/proto/rpc"
)

// inFiles counts the records of a dataset, from its files.
func inFiles(t testing.TB, data map[string][]string) int64 {
	t.Helper()
	total := int64(0)
	for _, globs := range data {
		d, err := dataset.Open(bounded(t), globs)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range d.Records(bounded(t), 0, d.NumRecords()) {
			if err != nil {
				t.Fatal(err)
			}
			total++
		}
	}
	return total
}

// checkLedger adds the ledger up against the files: each record once in each pass, and at most again counted more than once over all passes.
func checkLedger(t testing.TB, l *rpc.LedgerResponse, data map[string][]string, again int64) {
	t.Helper()
	total, doubled := inFiles(t, data), int64(0)
	if len(l.GetPasses()) != passes {
		t.Fatalf("the ledger has %d passes, want %d: %v", len(l.GetPasses()), passes, l)
	}
	for _, p := range l.Passes {
		if p.Records != total {
			t.Errorf("pass %d has trained %d of %d records", p.Pass, p.Records, total)
		}
		doubled += p.Again
	}
	if doubled > again {
		t.Errorf("%d records were trained more than once, want at most %d", doubled, again)
	}
}
