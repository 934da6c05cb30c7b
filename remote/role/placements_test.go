package role_test

import (
	"testing"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/transpiler"
)

// A trainer that was started with a placement of pservers that have gone since takes the job's placement from the coordinator.
func TestTrainerOfAnEarlierPlacement(t *testing.T) {
	specs := roleSpecs(t, 2)
	for _, s := range specs {
		s.Placed = &job.Placement{Number: 2, Pservers: 2}
	}
	m := testkit.Reading(t, 5, optimizer.SGD(0.05))
	before, err := transpiler.Transpile(t.Context(), m.Program, transpiler.Config{Trainers: 2, PServers: 3, MinBlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	late := specs[4]
	late.Placed = &job.Placement{Number: 1, Pservers: 3}
	late.Program, late.SaveProgram = encoded(t, before.Trainer), encoded(t, before.Save)
	ends := runAll(bounded(t), t, cluster.NewMemory(), specs)
	for range specs {
		if e := <-ends; e.err != nil {
			t.Errorf("%s ends with %v", e.name, e.err)
		}
	}
}
