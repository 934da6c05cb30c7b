package waits_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/waits"
)

func waitFor(seconds int64, who, by string) *job.Wait {
	return &job.Wait{Who: who, By: strings.Fields(by), Since: &timestamppb.Timestamp{Seconds: seconds}}
}

// The root of the matter comes first: a wait for someone who waits for nobody, before the waits for those who wait.
func TestRootFirst(t *testing.T) {
	for name, c := range map[string]struct {
		waits []*job.Wait
		want  string
	}{
		"nothing": {nil, ""},
		"a chain": {[]*job.Wait{waitFor(1, "trainer-0", "pserver-0"), waitFor(2, "pserver-0", "trainer-1"), waitFor(3, "trainer-1", "coordinator")},
			"trainer-1 pserver-0 trainer-0"},
		"the longest":          {[]*job.Wait{waitFor(5, "b", "x"), waitFor(3, "a", "x"), waitFor(4, "c", "x")}, "a c b"},
		"a circle":             {[]*job.Wait{waitFor(2, "a", "b"), waitFor(1, "b", "a"), waitFor(3, "c", "a")}, "b a c"},
		"itself":               {[]*job.Wait{waitFor(1, "a", "a")}, "a"},
		"several":              {[]*job.Wait{waitFor(1, "coordinator", "trainer-0 trainer-1"), waitFor(2, "trainer-1", "data")}, "trainer-1 coordinator"},
		"a circle with a root": {[]*job.Wait{waitFor(1, "a", "b"), waitFor(2, "b", "a"), waitFor(3, "b", "x"), waitFor(4, "x", "y")}, "x b a b"},
		"two circles":          {[]*job.Wait{waitFor(1, "c", "d a"), waitFor(2, "d", "c"), waitFor(3, "a", "b"), waitFor(4, "b", "a")}, "a b c d"},
	} {
		var got []string
		for _, w := range waits.RootFirst(c.waits) {
			got = append(got, w.Who)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// However many wait for each other, the order is found at once. The search of every path took 33 s for eleven.
func TestRootFirstInCircles(t *testing.T) {
	const n = 300
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("trainer-%d", i))
	}
	var list []*job.Wait
	for i, name := range all {
		list = append(list, waitFor(int64(n-i), name, strings.Join(all, " ")))
	}
	list = append(list, waitFor(1, "pserver-0", all[0]), waitFor(2, all[0], "coordinator"))
	got := waits.RootFirst(list)
	if len(got) != len(list) || got[0].By[0] != "coordinator" || got[len(got)-1].Who != "pserver-0" || got[1].Since.Seconds != 1 {
		t.Errorf("%d waits, the first for %v, then since %d, the last by %s", len(got), got[0].By, got[1].Since.Seconds, got[len(got)-1].Who)
	}
}

// A wait stands behind every wait of those whom it is for, unless they wait for it in turn.
func TestRootFirstProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"})
		var list []*job.Wait
		for range rapid.IntRange(0, 12).Draw(t, "waits") {
			by := strings.Join(rapid.SliceOfN(name, 0, 3).Draw(t, "by"), " ")
			list = append(list, waitFor(rapid.Int64Range(0, 3).Draw(t, "since"), name.Draw(t, "who"), by))
		}
		reaches := map[[2]string]bool{}
		for _, w := range list {
			for _, by := range w.By {
				reaches[[2]string{w.Who, by}] = true
			}
		}
		names := strings.Split("abcdefg", "")
		for _, via := range names {
			for _, from := range names {
				for _, to := range names {
					if reaches[[2]string{from, via}] && reaches[[2]string{via, to}] {
						reaches[[2]string{from, to}] = true
					}
				}
			}
		}
		got := waits.RootFirst(slices.Clone(list))
		for i, w := range got {
			if !slices.Contains(list, w) {
				t.Fatalf("wait %d is none of those given", i)
			}
			for _, later := range got[i+1:] {
				if slices.Contains(w.By, later.Who) && !reaches[[2]string{later.Who, w.Who}] {
					t.Fatalf("%v stands before %v", w, later)
				}
			}
		}
		if len(got) != len(list) {
			t.Fatalf("%d waits, want %d", len(got), len(list))
		}
	})
}
