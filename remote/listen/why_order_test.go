package listen_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/listen/supervise"
)

// The root of the matter comes first: a wait for someone who waits for nobody, before the waits for those who wait.
func TestRootFirst(t *testing.T) {
	wait := func(seconds int64, who, by string) *job.Wait {
		return &job.Wait{Who: who, By: strings.Fields(by), Since: &timestamppb.Timestamp{Seconds: seconds}}
	}
	for name, c := range map[string]struct {
		waits []*job.Wait
		want  string
	}{
		"nothing": {nil, ""},
		"a chain": {[]*job.Wait{wait(1, "trainer-0", "pserver-0"), wait(2, "pserver-0", "trainer-1"), wait(3, "trainer-1", "coordinator")},
			"trainer-1 pserver-0 trainer-0"},
		"the longest": {[]*job.Wait{wait(5, "b", "x"), wait(3, "a", "x"), wait(4, "c", "x")}, "a c b"},
		"a circle":    {[]*job.Wait{wait(2, "a", "b"), wait(1, "b", "a"), wait(3, "c", "a")}, "b a c"},
		"itself":      {[]*job.Wait{wait(1, "a", "a")}, "a"},
		"several":     {[]*job.Wait{wait(1, "coordinator", "trainer-0 trainer-1"), wait(2, "trainer-1", "data")}, "trainer-1 coordinator"},
	} {
		var got []string
		for _, w := range listen.RootFirst(c.waits) {
			got = append(got, w.Who)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// A server that has lost its lease is told of before the coordinator that has ended because of it.
func TestLostFirst(t *testing.T) {
	role := func(index int, lost bool) supervise.Role {
		return supervise.Role{Member: cluster.Member{Role: job.Role_PSERVER, Index: index}, Lost: lost}
	}
	var got []int
	for _, r := range listen.LostFirst([]supervise.Role{role(0, false), role(1, true), role(2, false), role(3, true)}) {
		got = append(got, r.Index)
	}
	if want := []int{1, 3, 0, 2}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
