package jobspec

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/job"
)

// A listener bounds what it counts: by what was said, and else by more than what follows from the program, which is the least.
func TestBounds(t *testing.T) {
	needs := func(millicores, memory int64) *job.Needs {
		n := &job.Needs{Memory: memory}
		if millicores > 0 {
			n.Millicores = &millicores
		}
		return n
	}
	spec := func(role job.Role, has, said *job.Needs) *job.RoleSpec {
		return &job.RoleSpec{Role: role, Needs: has, Spec: &job.JobSpec{TrainerNeeds: said}}
	}
	for name, c := range map[string]struct {
		spec          *job.RoleSpec
		cores, memory bool
		want          *job.Needs
	}{
		"nothing is counted":           {spec(job.Role_TRAINER, needs(2000, 100<<20), needs(0, 100<<20)), false, false, nil},
		"memory that was said":         {spec(job.Role_TRAINER, needs(2000, 100<<20), needs(0, 100<<20)), false, true, needs(0, 100<<20)},
		"memory that was not":          {spec(job.Role_TRAINER, needs(2000, 100<<20), nil), true, true, needs(2000, 912<<20)},
		"cores alone":                  {spec(job.Role_TRAINER, needs(500, 100<<20), nil), true, false, needs(500, 0)},
		"a role that takes none":       {spec(job.Role_PSERVER, needs(0, 100<<20), needs(0, 1<<20)), true, false, nil},
		"what trainers have said":      {spec(job.Role_COORDINATOR, needs(0, 64<<20), needs(0, 1<<20)), true, true, needs(0, 768<<20)},
		"a role that nobody has asked": {spec(job.Role_PSERVER, nil, nil), true, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Bounds(c.spec, c.cores, c.memory); !proto.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
