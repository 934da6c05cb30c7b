package listen_test

import (
	"errors"
	"io"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	_ "gocloud.dev/blob/s3blob" // opens the URLs of s3
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
)

// A job that ends with its listener was stopped; it has not failed.
func TestJobsStopWithTheirManager(t *testing.T) {
	h := newHarness(t, listen.Config{}, func(string) run { return idle })
	j := h.begin(t, reading(t))
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if s := j.Status(); s.State != job.State_STOPPED || !strings.Contains(wire.FaultOf(s.Failure).Error(), "stopped with its listener") {
		t.Errorf("%v", s)
	}
}

// When the manager has lost what its jobs need, they fail and say why, and no other starts.
func TestJobsFailWithTheirManager(t *testing.T) {
	h := newHarness(t, listen.Config{}, func(string) run { return idle })
	j, stopped := h.begin(t, fedAs(t, "runs")), h.begin(t, fedAs(t, "stopped"))
	if err := stopped.Stop(bounded(t)); err != nil {
		t.Fatal(err)
	}
	h.Fail(fault.E(fault.Unavailable, fault.At("the store"), fault.Got("a full disk")))
	if err := j.Wait(bounded(t)); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "a full disk") {
		t.Errorf("the job ends with %v", err)
	}
	if s, before := j.Status().State, stopped.Status().State; s != job.State_FAILED || before != job.State_STOPPED {
		t.Errorf("the job is %v, and the one before %v", s, before)
	}
	if _, err := h.Start(bounded(t), fed(t)); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "a full disk") {
		t.Errorf("a job after the loss: %v", err)
	}
}

// Jobs that have ended are forgotten, the oldest first, and those that run never.
func TestOldJobsAreForgotten(t *testing.T) {
	h := newHarness(t, listen.Config{MaxJobs: 3}, all(idle))
	var names []string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		j := h.begin(t, fedAs(t, name))
		if name != "b" {
			if err := j.Stop(bounded(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, j := range h.Jobs() {
		names = append(names, j.ID)
	}
	if got := strings.Join(names, " "); got != "b d e" {
		t.Errorf("jobs %s, want b, which runs, and the last two", got)
	}
}

// Each namespace has a history of its own: many jobs of one push out none of another.
func TestHistoryOfNamespaces(t *testing.T) {
	h := newHarness(t, listen.Config{MaxJobs: 2}, all(idle))
	begin := func(namespace, name string) {
		spec := fedAs(t, name)
		spec.Namespace = namespace
		if err := h.begin(t, spec).Stop(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
	begin("", "a")
	begin("ads", "b")
	for _, name := range []string{"c", "d", "e"} {
		begin("rank", name)
	}
	begin("ads", "f")
	begin("ads", "g")
	var names []string
	for _, j := range h.Jobs() {
		names = append(names, j.ID)
	}
	if got := strings.Join(names, " "); got != "a rank.d rank.e ads.f ads.g" {
		t.Errorf("jobs %s, want the last two of each namespace", got)
	}
}

// A manager that closes ends its jobs and takes no more.
func TestCloseEndsJobs(t *testing.T) {
	h := newHarness(t, listen.Config{}, all(idle))
	j := h.begin(t, fed(t))
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if s := j.Status(); s.State == job.State_RUNNING || !j.Ended() || !errors.Is(j.Wait(bounded(t)), fault.Canceled) {
		t.Errorf("the job is %v: %v", s.State, s.Failure)
	}
	if _, err := h.Start(bounded(t), fed(t)); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a job after the end: %v", err)
	}
}

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
	h := newHarness(t, listen.Config{}, all(idle))
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
	_, err := newHarness(t, listen.Config{}, all(idle)).Start(bounded(t), spec)
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
	h := newHarness(t, listen.Config{}, all(idle))
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

// A job that comes while its manager is closed is refused, or ended by Close, and leaves nothing behind.
func TestStartWhileClosing(t *testing.T) {
	m := testkit.Fed(t, optimizer.SGD(0.1))
	local := executor.New()
	defer local.Close()
	if err := local.Startup(bounded(t), m.Program); err != nil {
		t.Fatal(err)
	}
	scratch, params := t.TempDir(), filepath.Join(t.TempDir(), "model")
	if err := executor.SaveCombined(local.Scope(), params, m.Program); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		h := newHarness(t, listen.Config{RunDir: scratch}, all(idle))
		spec := encoded(t, m)
		spec.Fed, spec.Params = true, params
		told := make(chan error, 1)
		go func() {
			j, err := h.Start(bounded(t), spec)
			if err == nil {
				err = j.Wait(bounded(t))
			}
			told <- err
		}()
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		for _, j := range h.Jobs() {
			if !j.Ended() {
				t.Error("a job outlives its manager")
			}
		}
		if err := <-told; !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.Canceled) {
			t.Errorf("the job is told %v", err)
		}
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A model in a bucket is copied before the job starts, and the copy ends with the job. A bucket without a model starts no job.
func TestParametersOfABucketEndWithTheJob(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	backend := s3mem.New()
	server := httptest.NewServer(gofakes3.New(backend).Server())
	defer server.Close()
	if err := backend.CreateBucket("models"); err != nil {
		t.Fatal(err)
	}
	scratch, store := t.TempDir(), "s3://models/digits?region=us-east-1&use_path_style=true&endpoint="+url.QueryEscape(server.URL)
	m := testkit.Fed(t, optimizer.SGD(0.1))
	saved := t.TempDir()
	local := executor.New()
	defer local.Close()
	if err := local.Startup(bounded(t), m.Program); err != nil {
		t.Fatal(err)
	}
	if err := local.Save(bounded(t), saved, m.Program); err != nil {
		t.Fatal(err)
	}
	spec := encoded(t, m)
	spec.Fed, spec.Params = true, store
	h := newHarness(t, listen.Config{RunDir: scratch}, all(idle))
	if _, err := h.Start(bounded(t), spec); !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "no saved model") {
		t.Errorf("a bucket without a model: %v", err)
	}
	whole, err := bucket.OpenWhole(bounded(t), store)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close(bounded(t))
	files, err := os.ReadDir(saved)
	if err != nil {
		t.Fatal(err)
	}
	whole.Begin(bounded(t))
	for _, file := range files {
		b, err := os.ReadFile(filepath.Join(saved, file.Name()))
		if err == nil {
			err = whole.Create(bounded(t), file.Name(), func(w io.Writer) error { _, err := w.Write(b); return err })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := whole.Commit(bounded(t)); err != nil {
		t.Fatal(err)
	}
	j := h.begin(t, spec)
	copied, err := filepath.Glob(filepath.Join(scratch, "*", "*", "*"))
	if err != nil || len(copied) != len(files) {
		t.Errorf("%d files are copied, want %d, %v", len(copied), len(files), err)
	}
	if err := j.Stop(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A combined file of parameters is read before the job starts; what it is unpacked into ends with the job.
func TestUnpackedParametersEndWithTheJob(t *testing.T) {
	scratch := t.TempDir()
	m := testkit.Fed(t, optimizer.SGD(0.1))
	local := executor.New()
	defer local.Close()
	if err := local.Startup(bounded(t), m.Program); err != nil {
		t.Fatal(err)
	}
	spec := encoded(t, m)
	spec.Fed = true
	spec.Params = filepath.Join(t.TempDir(), "model")
	if err := executor.SaveCombined(local.Scope(), spec.Params, m.Program); err != nil {
		t.Fatal(err)
	}
	h := newHarness(t, listen.Config{RunDir: scratch}, all(idle))
	j := h.begin(t, spec)
	if made, err := os.ReadDir(scratch); err != nil || len(made) != 1 {
		t.Errorf("%v, %v", made, err)
	}
	if err := j.Stop(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(spec.Params, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(bounded(t), spec); err == nil {
		t.Error("a truncated file of parameters is taken")
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
