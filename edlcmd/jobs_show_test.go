package edlcmd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/view"
)

// A ledger of many passes shows the last ones, and of those before only what does not agree.
func TestLedgerOfManyPasses(t *testing.T) {
	var sums []view.PassSum
	for pass := range int32(100) {
		sums = append(sums, view.PassSum{Pass: pass, Records: 10, Once: 10, Again: 1, Agrees: pass != 7})
	}
	var out bytes.Buffer
	if err := writeLedger(&out, &job.JobStatus{}, sums); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 1+1+shownPasses+2 || !strings.HasPrefix(lines[1], "7 ") || !strings.HasPrefix(lines[2], "80 ") ||
		lines[len(lines)-2] != "79 earlier passes agree: 790 records once, 79 again; --output json has each" {
		t.Errorf("%d lines:\n%s", len(lines), out.String())
	}
}
