package listen_test

import (
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
)

// encoded puts a program into a job of two trainers and two pservers.
func encoded(t testing.TB, m testkit.Model) *job.JobSpec {
	t.Helper()
	b, err := m.Program.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &job.JobSpec{Program: b, Trainers: 2, Pservers: 2, MinBlockSize: 4, StartDeadline: durationpb.New(patience),
		RoundDeadline: durationpb.New(patience)}
}

// reading is a job that reads 20 records in batches of 5.
func reading(t testing.TB) *job.JobSpec {
	t.Helper()
	spec := encoded(t, testkit.Reading(t, 5, optimizer.SGD(0.05)))
	for name, globs := range testkit.Samples(t, t.TempDir(), 20) {
		spec.Data = append(spec.Data, &job.DataBinding{Dataset: name, Globs: globs})
	}
	spec.Fetch = []string{"loss"}
	return spec
}

// fed is a job that is fed.
func fed(t testing.TB) *job.JobSpec {
	t.Helper()
	spec := encoded(t, testkit.Fed(t, optimizer.SGD(0.05)))
	spec.Fed = true
	return spec
}
