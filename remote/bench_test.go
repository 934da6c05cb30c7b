package remote_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/remote"
)

// BenchmarkSyncTasks measures what tasks cost the rounds of a sync job: two trainers and two pservers, processes all, train a pass over 20,000
// records in batches of 16, with durable queues in an etcd server of this process. A round of records_per_task=1 needs 16 tasks. The time goes from
// the first step that is seen to the last.
func BenchmarkSyncTasks(b *testing.B) {
	const records, batch = 20000, 16
	data := testkit.Samples(b, b.TempDir(), records)
	m := testkit.Reading(b, batch, optimizer.SGD(0.01))
	for _, size := range []int64{1, 10, 100} {
		b.Run(fmt.Sprintf("records_per_task=%d", size), func(b *testing.B) {
			l := newRig(b).listener()
			rounds, took := 0, time.Duration(0)
			for range b.N {
				var first, last time.Time
				e := executorOf(b, l, &remote.JobSpec{Trainers: 2, Pservers: 2, RecordsPerTask: size})
				summary, err := e.Train(bounded(b), m.Program, executor.TrainOptions{Data: data, Passes: 1, Fetch: []string{m.Loss}, Ahead: -1},
					func(executor.StepResult) error {
						if last = time.Now(); first.IsZero() {
							first = last
						}
						return nil
					})
				if err != nil || summary.Steps != records/batch {
					b.Fatal(summary, err)
				}
				rounds, took = rounds+int(summary.Steps)-1, took+last.Sub(first)
			}
			b.ReportMetric(float64(rounds)/took.Seconds(), "rounds/s")
			b.ReportMetric(float64(rounds)*batch/float64(size)/took.Seconds(), "tasks/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
