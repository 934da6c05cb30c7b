package listen

import (
	"errors"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/thisbuild"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
)

// plannedJob is a job with two pservers, and its plan.
func plannedJob(t *testing.T) (*job.JobSpec, *plan) {
	t.Helper()
	m := layers.NewModel().Seed(1)
	batch := layers.Read(layers.Batch(layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(2)), layers.Field("y", layers.Dims(1))), 4))
	optimizer.SGD(0.01).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(batch[0], 1), batch[1])))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	spec := &job.JobSpec{Data: []*job.DataBinding{{Dataset: "train", Globs: []string{"train-*"}}}, Trainers: 1, Pservers: 2}
	if spec.Program, err = p.Encode(); err != nil {
		t.Fatal(err)
	}
	jobspec.Complete(spec)
	made, err := newPlan(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return spec, made
}

// The next listener gives roles the programs that the build has made with which the job began, and what this build says of itself; not those that it would make.
func TestProgramsOfARunStay(t *testing.T) {
	spec, made := plannedJob(t)
	dir := t.TempDir()
	if again, err := planOfRun(t.Context(), "a", dir, spec); err != nil || string(again.trainer) != string(made.trainer) {
		t.Fatalf("a run without programs: %v", err)
	}
	made.maker = maker{wire.Protocol, "v0.9.0", "other", map[string]string{"relu": "1"}}
	made.trainer, made.pservers[1] = []byte("trainer of v0.9.0"), []byte("pserver of v0.9.0")
	if err := writePrograms(dir, made); err != nil {
		t.Fatal(err)
	}
	again, err := planOfRun(t.Context(), "a", dir, spec)
	if err != nil {
		t.Fatal(err)
	}
	if string(again.trainer) != "trainer of v0.9.0" || string(again.pservers[1]) != "pserver of v0.9.0" || again.maker.build != "v0.9.0" || again.maker.registry != "other" || again.maker.ops["relu"] != "1" {
		t.Errorf("the plan of the next listener: %+v", again)
	}
	if again.hash != made.hash || len(again.loads) != len(made.loads) || again.user == nil || string(again.save) != string(made.save) {
		t.Errorf("the plan of the next listener: %+v", again)
	}
	if err := again.maker.sameBuild("job a", "another number of pservers", "wait"); !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "v0.9.0") || !strings.Contains(err.Error(), thisbuild.Name()) {
		t.Errorf("what another build alone can do: %v", err)
	}
	if err := thisMaker().sameBuild("job a", "another number of pservers", "wait"); err != nil {
		t.Error(err)
	}
	more := proto.CloneOf(spec)
	more.Pservers = 3
	if again, err = planOfRun(t.Context(), "a", dir, more); err != nil || len(again.pservers) != 3 {
		t.Errorf("another number of pservers: %v", err)
	}

	made.maker.protocol++
	if err := writePrograms(dir, made); err != nil {
		t.Fatal(err)
	}
	_, err = planOfRun(t.Context(), "a", dir, spec)
	for _, want := range []string{"job a", "v0.9.0", thisbuild.Name(), "run it again"} {
		if !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("programs of another protocol: %v, want %q", err, want)
		}
	}
	for name, content := range map[string]string{"no message": "\xff\xff", "too few": ""} {
		if err := os.WriteFile(programsFile(dir, 2), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := planOfRun(t.Context(), "a", dir, spec); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
