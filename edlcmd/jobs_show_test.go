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

// Where no coordinator has told how many records there are, a ledger has what was trained, and does not say that records are too many or missing.
func TestLedgerOfUnknownRecords(t *testing.T) {
	var out bytes.Buffer
	if err := writeLedger(&out, &job.JobStatus{State: job.State_FAILED}, []view.PassSum{{Once: 1920, Unknown: true}}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(strings.Split(out.String(), "\n")[2]); strings.Join(got[:7], " ") != "0 - 1920 0 - - not" || strings.Contains(out.String(), "agree") {
		t.Errorf("got %q", out.String())
	}
}
