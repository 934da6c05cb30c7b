package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// Trap 15: a task is reported finished when its records have been trained, not when they have been read: by a batch that begins in one task and ends
// in the next, by reading ahead, or into a shuffle buffer.
func TestTasksAreFinishedWhenTrained(t *testing.T) {
	const records = 60
	for name, m := range map[string]testkit.Model{"in order": testkit.Reading(t, 4, optimizer.SGD(0.1)), "ahead and shuffled": shuffling(t, 4, 7)} {
		for _, sync := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, sync=%v", name, sync), func(t *testing.T) {
				j := newReadingJob(t, m, testkit.Samples(t, t.TempDir(), records), queue.Policy{Sync: sync, Passes: 1, Trainers: 1})
				s := j.alone(t)
				defer s.Close()
				var err error
				var trained, given []dataset.Range // a batch is trained when the next one is asked for
				for err == nil {
					trained = append(trained, given...)
					var batch *executor.Batch
					if batch, err = s.Next(bounded(t)); err == nil {
						given = slices.Clone(batch.Records)
					}
					done := j.status().Done // the first tasks, as there is one trainer
					if i := slices.Index(counts(records, trained)[:10*done], 0); i >= 0 {
						t.Fatalf("%d tasks of 10 records are finished, and record %d has not been trained", done, i)
					}
				}
				if q := j.status(); !errors.Is(err, io.EOF) || q.Done != records/10 {
					t.Errorf("at the end %v, %v", q, err)
				}
			})
		}
	}
}

// The same for a trainer that is drained, also while it asks for another batch: what has been trained of a shuffle buffer tells nothing of the task
// before.
func TestTasksAreHandedInWhenTrained(t *testing.T) {
	const records = 60
	data := testkit.Samples(t, t.TempDir(), records)
	ordered, shuffled := testkit.Reading(t, 4, optimizer.SGD(0.1)), shuffling(t, 4, 25)
	for i, m := range []testkit.Model{ordered, ordered, shuffled, shuffled} {
		sync := i%2 == 0
		for batches := 1; batches < records/4; batches++ {
			j := newReadingJob(t, m, data, queue.Policy{Sync: sync, Passes: 1, Trainers: 1})
			s := j.alone(t)
			var trained []dataset.Range
			reading, drain := context.WithCancel(bounded(t))
			for range batches {
				batch, err := s.Next(reading)
				if err != nil {
					t.Fatal(err)
				}
				trained = append(trained, batch.Records...)
			}
			drain()
			for batches%2 == 0 { // it asks for more; what has been read ahead may still come
				batch, err := s.Next(reading)
				if err != nil {
					break
				}
				trained = append(trained, batch.Records...)
			}
			if err := s.HandIn(bounded(t)); err != nil {
				t.Fatal(err)
			}
			if done := j.status().Done; slices.Contains(counts(records, trained)[:10*done], 0) {
				t.Errorf("case %d, sync %v: %d tasks of 10 records are finished after %d batches, with %v", i, sync, done, batches, trained)
			}
		}
	}
}
