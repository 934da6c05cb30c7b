package remote_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/timing"
)

// profiledSteps is how many steps the jobs of these tests record.
const profiledSteps = 5

// The trace of a job has every pserver and trainer as a process, whose phases follow each other in each of the profiled rounds, and whose kernels ran in
// them. The listener knows where the time of the last rounds of each went.
func TestProfileOfAJob(t *testing.T) {
	l := listener(t)
	for _, transport := range []job.Transport{job.Transport_AUTO, job.Transport_GRPC} {
		m := testkit.Reading(t, 4, optimizer.Adam(0.05))
		e := executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 1, Transport: transport, ProfileSteps: profiledSteps})
		j, err := e.Submit(bounded(t), m.Program, executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), 20), Passes: 4, Save: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		summary, err := j.Follow(bounded(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		if summary.Steps <= profiledSteps {
			t.Fatalf("%d steps are too few for this test", summary.Steps)
		}
		mustBeWhole(t, e.Client(), j.ID)
		d, err := remote.ShowTimes(bounded(t), e.Client(), j.ID)
		if err != nil {
			t.Fatal(err)
		}
		mustHaveRounds(t, d, summary.Steps)
	}
}

// mustHaveRounds checks what the listener knows of the last rounds. The end of the data, and saving, are no round.
func mustHaveRounds(t *testing.T, d *rpc.JobDetails, steps uint64) {
	t.Helper()
	if len(d.Times) != 4 {
		t.Fatalf("times of %d roles, want 4", len(d.Times))
	}
	for _, r := range d.Times {
		m := r.Rounds
		if m.GetLast() != steps-1 || uint64(m.GetRounds()) != min(steps, timing.Kept) || m.Median <= 0 || len(r.Trace) > 0 {
			t.Errorf("%v %d: %v, want rounds up to %d, and no trace", r.Role, r.Index, m, steps-1)
		}
		last := 0
		for rank, n := range m.GetLastDeclared() {
			if last += int(n); rank > 1 {
				t.Errorf("trainer %d was the last to declare", rank)
			}
		}
		if want := int(m.Rounds); r.Role == job.Role_PSERVER && last != want || r.Role == job.Role_TRAINER && last != 0 {
			t.Errorf("%v %d: %d declarations were the last, want one a round on a pserver", r.Role, r.Index, last)
		}
	}
}

// mustBeWhole checks the trace of a job with 2 pservers and 2 trainers in which nothing was lost.
func mustBeWhole(t *testing.T, c *remote.Client, id string) {
	t.Helper()
	var out bytes.Buffer
	missing, err := remote.WriteTrace(bounded(t), &out, c, id)
	if err != nil || len(missing) > 0 {
		t.Fatalf("missing %q, error %v", missing, err)
	}
	type event struct {
		Name, Ph string
		Pid, Tid int
		Ts, Dur  float64
		Args     struct {
			Name  string
			Round int
		}
	}
	var file struct{ TraceEvents []event }
	if err := json.Unmarshal(out.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	roles, phases, kernels := map[int]string{}, map[int][]event{}, map[int]map[string]int{}
	for _, e := range file.TraceEvents {
		switch {
		case e.Ts < 0 || e.Dur < 0 || e.Args.Round >= profiledSteps:
			t.Errorf("event %+v", e)
		case e.Ph == "M" && e.Name == "process_name":
			roles[e.Pid], kernels[e.Pid] = e.Args.Name, map[string]int{}
		case e.Ph == "X" && e.Tid == 0:
			phases[e.Pid] = append(phases[e.Pid], e)
		case e.Ph == "X":
			kernels[e.Pid][e.Name]++
		}
	}
	if got, want := slices.Sorted(maps.Values(roles)), []string{"pserver 0", "pserver 1", "trainer 0", "trainer 1"}; !slices.Equal(got, want) {
		t.Fatalf("roles %q, want %q", got, want)
	}
	for pid, role := range roles {
		names, update := timing.Trainer, "send_barrier"
		if role[0] == 'p' {
			names, update = timing.PServer, "adam"
		}
		if n := kernels[pid][update]; n < profiledSteps {
			t.Errorf("%s ran %s %d times: %v", role, update, n, kernels[pid])
		}
		rounds, end, at := map[int]bool{}, 0.0, -1
		for _, e := range phases[pid] {
			next := slices.Index(names, e.Name)
			if rounds[e.Args.Round] && next <= at || !rounds[e.Args.Round] && e.Args.Round != len(rounds) || next < 0 {
				t.Errorf("%s: phase %s of round %d after phase %d", role, e.Name, e.Args.Round, at)
			}
			if e.Ts < end-0.01 {
				t.Errorf("%s: phase %s of round %d begins at %v us, before %v", role, e.Name, e.Args.Round, e.Ts, end)
			}
			rounds[e.Args.Round], end, at = true, e.Ts+e.Dur, next
		}
		if len(rounds) != profiledSteps {
			t.Errorf("%s: %d rounds, want %d", role, len(rounds), profiledSteps)
		}
	}
}

// Async trainers have steps; their pservers have no rounds.
func TestTimesOfAnAsyncJob(t *testing.T) {
	m := testkit.Reading(t, 4, optimizer.SGD(0.05))
	e := executorOf(t, listener(t), &remote.JobSpec{Trainers: 2, Pservers: 1, Mode: job.Mode_ASYNC, ProfileSteps: 100})
	j, err := e.Submit(bounded(t), m.Program, executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), 20), Passes: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Follow(bounded(t), nil); err != nil {
		t.Fatal(err)
	}
	if missing, err := remote.WriteTrace(bounded(t), io.Discard, e.Client(), j.ID); err != nil || len(missing) > 0 {
		t.Errorf("missing %q, error %v", missing, err)
	}
	d, err := remote.ShowTimes(bounded(t), e.Client(), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	rounds := uint32(0)
	for _, r := range d.Times {
		if rounds += r.Rounds.GetRounds(); r.Role == job.Role_PSERVER && r.Rounds != nil {
			t.Errorf("times %v", r)
		}
	}
	if rounds == 0 {
		t.Error("no trainer has told a step")
	}
}
