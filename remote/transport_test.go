package remote_test

import (
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/jobspec"
)

// The law over each transport: a job that is fed and a job that reads compute what the reference computes, bit for bit, with one server and with
// several, and with what travels compressed in each form. So does an async job of one trainer, whose residuals last from step to step.
func TestLawOverEachTransport(t *testing.T) {
	l := listener(t)
	for _, name := range jobspec.Transports() {
		transport, err := jobspec.ParseTransport(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			for servers, forms := range map[int32][2]string{1: {}, 2: {"bf16", "fp16"}, 3: {"fp16", "bf16"}, 4: {"topk:0.2:4", "none"}} {
				if testing.Short() && servers%2 == 1 {
					continue
				}
				fed := testkit.Fed(t, optimizer.Adam(0.01))
				spec := func() *remote.JobSpec {
					return &remote.JobSpec{Trainers: 3, Pservers: servers, MinBlockSize: 4, Transport: transport, Save: t.TempDir(),
						CompressGradients: forms[0], CompressParameters: forms[1]}
				}
				want, err := oracleFor(fed.Program, spec())
				if err != nil {
					t.Fatal(err)
				}
				defer want.Close()
				if err := checkFedLaw(l, subject{Model: fed, fetch: []string{fed.Loss}}, spec(), []int64{7, 1, 12, 3}, want); err != nil {
					t.Errorf("%d servers, fed: %v", servers, err)
				}
				reading := testkit.Reading(t, 5, optimizer.Adam(0.01))
				run := executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), 33), Passes: 2, Fetch: []string{reading.Loss}}
				of := spec()
				of.Save = ""
				if err := checkReadingLaw(l, subject{Model: reading, fetch: run.Fetch}, of, run, t.TempDir(), map[int]int32{1: 3}); err != nil {
					t.Errorf("%d servers, reading: %v", servers, err)
				}
			}
			async := testkit.Fed(t, optimizer.Adam(0.01))
			alone := &remote.JobSpec{Trainers: 1, Pservers: 2, MinBlockSize: 4, Mode: job.Mode_ASYNC, Transport: transport, Save: t.TempDir(),
				CompressGradients: "topk:0.2:4"}
			want, err := oracleFor(async.Program, alone)
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			if err := checkFedLaw(l, subject{Model: async, fetch: []string{async.Loss}}, alone, []int64{7, 1, 12, 3}, want); err != nil {
				t.Errorf("async, topk: %v", err)
			}
		})
	}
}
