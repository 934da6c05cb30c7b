package kubernetes

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Two listeners take turns at one Lease. Each line is a second at which one of them looks at it, and whether its request comes through.
func TestElection(t *testing.T) {
	began := time.Unix(1_000_000, 0)
	var lease *coordinationv1.Lease
	both := map[string]*election{"a": {me: "a"}, "b": {me: "b"}}
	for _, s := range []struct {
		second int
		who    string
		lost   bool   // the API server does not answer
		want   string // who holds it by the Lease, and who thinks so
	}{
		{0, "a", false, "a a"},
		{1, "b", false, "a a"},
		{2, "a", false, "a a"},
		{19, "b", false, "a a"},
		{21, "a", true, "a a"},
		{22, "a", true, "a "}, // 20 seconds after its last request it gives up
		{48, "b", false, "a "},
		{49, "b", false, "b b"}, // 30 seconds after the Lease has changed for the last time that b knows
		{50, "a", false, "b b"},
		{60, "b", false, "b b"},
		{200, "a", false, "b "}, // it has not looked for long: the Lease may have changed at any time since
		{229, "a", false, "b "},
		{230, "a", false, "a a"},
		{231, "b", false, "a a"}, // b was paused for long
	} {
		now := began.Add(time.Duration(s.second) * time.Second)
		if e := both[s.who]; !s.lost {
			if write := e.next(now, lease); write != nil {
				write.ResourceVersion = fmt.Sprint(s.second)
				lease = write
				e.wrote(now)
			}
		}
		got := holderOf(lease) + " "
		for _, who := range []string{"a", "b"} {
			if both[who].holds(now) {
				got += who
			}
		}
		if got != s.want {
			t.Errorf("at %d s, when %s has looked, the holder is %q, want %q", s.second, s.who, got, s.want)
		}
	}
	if n := *lease.Spec.LeaseTransitions; n != 3 {
		t.Errorf("%d holders, want 3", n)
	}
	nobody := ""
	lease.Spec.HolderIdentity = &nobody
	if write := both["b"].next(began.Add(233*time.Second), lease); write == nil || holderOf(write) != "b" {
		t.Error("a listener waits though the last one has resigned")
	}
}
