package coordinator

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
)

// A collector of a sync job that begins with round 4, and what comes of it. "2/1" is a report of round 2 by rank 1, of one of two rows; "2/1?" is one whose
// sender does not know whether the round has committed. "close 5", "void 5", "reopen 5" and "goOn 5" are the methods. Steps are told with their rows that
// are reported and those that are not.
func TestCollector(t *testing.T) {
	for _, c := range []struct{ events, want string }{
		{"4/0 4/1", "4:2+0"},
		{"4/0 4/0 4/1 4/1", "4:2+0"},                         // repeated
		{"3/0 3/1", ""},                                      // before the job
		{"5/0 5/1 4/0 4/1", "4:2+0 5:2+0"},                   // in order
		{"4/0 4/1? close5", "4:2+0"},                         // the generation tells that it has committed
		{"4/0? 4/1? void4 4/0 4/1", "4:2+0"},                 // or that it has not
		{"4/0? 4/1? void4 close4 5/0", ""},                   // nothing is left of it
		{"4/0 close5 4/1", "4:1+1"},                          // too late
		{"close7", "6:0+0"},                                  // nobody lived to report: how many steps there were
		{"5/1 close7", "5:1+1 6:0+0"},                        // and what is left of others
		{"6/0 6/1 reopen7", "6:2+0"},                         // to another coordinator, before its first generation
		{"reopen7 6/0 6/1", "6:2+0"},                         // and after it
		{"reopen7 6/0? close7", "6:1+1"},                     // until nobody has more to say
		{"4/0 4/1 reopen5 close5", "4:2+0"},                  // one that knows has nothing open
		{"reopen4 close4 4/0 4/1", "4:2+0"},                  // the first generation of a job
		{"7/0 7/1 8/0 8/1 void9 close9", "7:2+0 8:2+0"},      // what died with a coordinator, told to the next before its first generation
		{"8/0 8/1 9/0 goOn8 9/1", "8:2+0 9:2+0"},             // where the user knows how many there were
		{"4/0 4/1 5/0 reopen6 5/1", "4:2+0 5:2+0"},           // a generation that begins while a step is reported
		{"4/0 4/1 5/0? reopen6 void6 close6", "4:2+0 5:1+1"}, // and one of whose members is lost
	} {
		collector := newCollector(Config{Sync: true, Begin: &job.Progress{Steps: 4}})
		var told []string
		for _, event := range strings.Fields(c.events) {
			for _, j := range collect(t, &collector, event) {
				told = append(told, fmt.Sprintf("%d:%d+%d", j.step.Step, j.step.Rows-j.step.Unreported, j.step.Unreported))
			}
		}
		if got := strings.Join(told, " "); got != c.want {
			t.Errorf("%s: told %q, want %q", c.events, got, c.want)
		}
	}
}

// collect lets an event happen to a collector.
func collect(t *testing.T, c *collector, event string) []joined {
	t.Helper()
	var round uint64
	var rank uint32
	if n, _ := fmt.Sscanf(event, "%d/%d", &round, &rank); n == 2 {
		return c.add(&rpc.TrainerStep{Id: &rpc.Identity{Rank: rank, Round: round}, Rows: 1, GlobalRows: 2, Pending: strings.HasSuffix(event, "?")})
	}
	name := strings.TrimRight(event, "0123456789")
	if _, err := fmt.Sscan(strings.TrimPrefix(event, name), &round); err != nil {
		t.Fatal(event, err)
	}
	switch name {
	case "close":
		return c.close(id.Round(round), 0)
	case "reopen":
		return c.reopen(id.Round(round))
	case "goOn":
		return c.goOn(id.Round(round))
	}
	c.void(id.Round(round))
	return nil
}

// In async mode the reports of a process count once, and those of a process that another has followed not at all.
func TestCollectorAsync(t *testing.T) {
	c := newCollector(Config{Begin: &job.Progress{Steps: 7}})
	for i, r := range []struct {
		generation, round uint64
		rank              uint32
		step              int // -1: it does not count
	}{{1, 0, 0, 7}, {1, 0, 0, -1}, {1, 0, 1, 8}, {1, 1, 0, 9}, {3, 0, 0, 10}, {1, 2, 0, -1}, {3, 1, 0, 11}} {
		out := c.add(&rpc.TrainerStep{Id: &rpc.Identity{Rank: r.rank, Generation: r.generation, Round: r.round}, Rows: 1, GlobalRows: 1})
		if r.step < 0 && len(out) > 0 || r.step >= 0 && (len(out) != 1 || out[0].step.Step != uint64(r.step)) {
			t.Errorf("report %d: %v, want step %d", i, out, r.step)
		}
	}
}

// Reports that no trainer makes are refused: of more rows than the batch has, and of a round that lacks more contributions than any may.
func TestReportsThatNoTrainerMakes(t *testing.T) {
	for name, c := range map[string]struct {
		m      *rpc.TrainerStep
		backup int
		wrong  bool
	}{
		"rows":             {&rpc.TrainerStep{Rows: 2, GlobalRows: 4}, 0, false},
		"too many rows":    {&rpc.TrainerStep{Rows: 5, GlobalRows: 4}, 0, true},
		"less than none":   {&rpc.TrainerStep{Rows: -1}, 0, true},
		"one late":         {&rpc.TrainerStep{Dropped: []uint32{3}}, 1, false},
		"no backup":        {&rpc.TrainerStep{Dropped: []uint32{3}}, 0, true},
		"too many late":    {&rpc.TrainerStep{Dropped: []uint32{3, 4}}, 1, true},
		"no place of one":  {&rpc.TrainerStep{Dropped: []uint32{1 << 31}}, 1, true},
		"none of so large": {&rpc.TrainerStep{Dropped: []uint32{math.MaxUint32}}, 1, true},
	} {
		if err := checkReport(c.m, c.backup); errors.Is(err, fault.InvalidArgument) != c.wrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}
