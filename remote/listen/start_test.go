package listen_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/listen"
)

// What is wrong with a job is told before any process starts.
func TestWrongJobsStartNothing(t *testing.T) {
	changed := func(change func(p *program.Program)) func(*job.JobSpec) {
		return func(s *job.JobSpec) {
			m := testkit.Fed(t, optimizer.SGD(0.1))
			change(m.Program)
			s.Data, s.Fetch = nil, nil
			s.Program = encoded(t, m).Program
		}
	}
	cases := map[string]struct {
		change func(*job.JobSpec)
		kind   fault.Kind
		says   string
	}{
		"no program":             {func(s *job.JobSpec) { s.Program = nil }, fault.OK, ""},
		"truncated program":      {func(s *job.JobSpec) { s.Program = s.Program[:len(s.Program)-3] }, fault.Corrupt, ""},
		"random program":         {func(s *job.JobSpec) { s.Program = []byte("this is no program") }, fault.Corrupt, ""},
		"unknown op":             {changed(func(p *program.Program) { p.Global().Ops[0].Type = "no_such_op" }), fault.OK, "no_such_op"},
		"undeclared variable":    {changed(func(p *program.Program) { p.Global().Ops[0].Inputs["X"] = []string{"nowhere"} }), fault.OK, "nowhere"},
		"an op of servers":       {changed(func(p *program.Program) { p.Global().Ops[0].Type = "listen_and_serv" }), fault.OK, "listen_and_serv"},
		"no data":                {func(s *job.JobSpec) { s.Data = nil }, fault.InvalidArgument, "--data"},
		"data for a fed program": {func(s *job.JobSpec) { s.Program = fed(t).Program }, fault.InvalidArgument, "reads none"},
		"unknown fetch":          {func(s *job.JobSpec) { s.Fetch = []string{"nothing"} }, fault.NotFound, "nothing"},
		"no parameters":          {func(s *job.JobSpec) { s.Params = filepath.Join(t.TempDir(), "absent") }, fault.NotFound, "absent"},
	}
	h := newHouse(t, listen.Config{}, all(idle))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := reading(t)
			c.change(spec)
			_, err := h.Start(bounded(t), spec)
			if err == nil || c.kind != fault.OK && !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want kind %v with %q", err, c.kind, c.says)
			}
		})
	}
	if n := h.started.Load(); n != 0 || len(h.Jobs()) != 0 {
		t.Errorf("%d roles were started, and there are %d jobs", n, len(h.Jobs()))
	}
}

// All mistakes of a specification are told at once.
func TestEveryMistakeOfASpec(t *testing.T) {
	spec := reading(t)
	spec.Name, spec.Trainers, spec.Pservers, spec.Passes, spec.Mode, spec.SplitMethod = "../up", 1<<20, -1, -1, 7, "at_random"
	spec.Lease = durationpb.New(-1)
	spec.Data = append(spec.Data, spec.Data...)
	_, err := newHouse(t, listen.Config{}, all(idle)).Start(bounded(t), spec)
	if err == nil {
		t.Fatal("no mistake")
	}
	for _, field := range []string{"name", "trainers", "passes", "mode", "split_method", "lease", "data"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("nothing about %s in: %v", field, err)
		}
	}
}

// A name belongs to one job as long as that runs.
func TestNamesOfJobs(t *testing.T) {
	h := newHouse(t, listen.Config{}, all(idle))
	spec := fed(t)
	spec.Name = "digits"
	first := h.begin(t, spec)
	if first.ID != "digits" {
		t.Errorf("job %q", first.ID)
	}
	if _, err := h.Start(bounded(t), fedAs(t, "digits")); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a second job of that name: %v", err)
	}
	a, b := h.begin(t, fed(t)), h.begin(t, fed(t))
	if a.ID == "" || a.ID == b.ID {
		t.Errorf("jobs without a name are called %q and %q", a.ID, b.ID)
	}
	if err := first.Stop(bounded(t)); err != nil {
		t.Fatal(err)
	}
	second := h.begin(t, fedAs(t, "digits"))
	if got, err := h.Job("digits"); got != second || err != nil {
		t.Errorf("the name still leads to the job that has ended: %v", err)
	}
	if _, err := h.Job("unknown"); !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "digits") {
		t.Errorf("an unknown job: %v", err)
	}
}

func fedAs(t *testing.T, name string) *job.JobSpec {
	spec := fed(t)
	spec.Name = name
	return spec
}
