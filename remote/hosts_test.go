package remote_test

import (
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
)

// On one machine all trainers merge as one group, which gives the bits of trainers without groups. Elastic or not, over each transport that has a data
// plane, fed or reading, with batches in which some trainers have no rows.
func TestLawOfMergedHosts(t *testing.T) {
	l := listener(t)
	for _, transport := range []job.Transport{job.Transport_AUTO, job.Transport_TCP} {
		t.Run(transport.String(), func(t *testing.T) {
			spec := func() *remote.JobSpec {
				return &remote.JobSpec{Trainers: 3, Pservers: 2, MinBlockSize: 4, Transport: transport, MergeHosts: true}
			}
			fed := testkit.Fed(t, optimizer.Adam(0.01))
			of := spec()
			of.Save = t.TempDir()
			want, err := reference.New(fed.Program, 3)
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			if err := checkFedLaw(l, subject{Model: fed, fetch: []string{fed.Loss}}, of, []int64{7, 1, 12, 2}, want); err != nil {
				t.Errorf("fed: %v", err)
			}
			reading := testkit.Reading(t, 5, optimizer.Adam(0.01))
			run := executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), 33), Passes: 2, Fetch: []string{reading.Loss}}
			if err := checkReadingLaw(l, subject{Model: reading, fetch: run.Fetch}, spec(), run, t.TempDir(), map[int]int32{1: 3}); err != nil {
				t.Errorf("reading: %v", err)
			}
		})
	}
}
