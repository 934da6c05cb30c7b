package listen_test

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/listen"
)

// A dry run gives each role what a listener would give it, the same each time, and runs nothing.
func TestDryRun(t *testing.T) {
	spec := func() *job.JobSpec {
		s := fed(t)
		s.Name, s.Trainers, s.Pservers, s.Standby = "digits", 2, 2, 1
		return s
	}
	roles, err := listen.DryRun(t.Context(), listen.Config{}, spec())
	if err != nil {
		t.Fatal(err)
	}
	again, err := listen.DryRun(t.Context(), listen.Config{}, spec())
	if err != nil {
		t.Fatal(err)
	}
	want := map[job.Role]int{job.Role_COORDINATOR: 1, job.Role_PSERVER: 2, job.Role_STANDBY: 2, job.Role_TRAINER: 2}
	for i, r := range roles {
		want[r.Role]--
		if r.Job != "digits" || r.PlannedMemory < 64<<20 || len(r.Credentials) > 0 || (r.Role == job.Role_TRAINER || r.Role == job.Role_PSERVER) && len(r.Program) == 0 || !proto.Equal(r, again[i]) {
			t.Errorf("role %d of %v is given %v", i, r.Role, r)
		}
	}
	for role, n := range want {
		if n != 0 {
			t.Errorf("%v: %d are missing", role, n)
		}
	}
	wrong := spec()
	wrong.Program = []byte("nothing")
	if _, err := listen.DryRun(t.Context(), listen.Config{}, wrong); fault.KindOf(err) == fault.OK || errors.Is(err, fault.Internal) {
		t.Errorf("a program that is none: %v", err)
	}
}
