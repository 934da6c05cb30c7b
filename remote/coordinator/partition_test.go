package coordinator_test

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
)

// chunksOf makes one chunk of each number of records.
func chunksOf(records ...int64) []*rpc.Chunk {
	var chunks []*rpc.Chunk
	first := int64(0)
	for i, n := range records {
		chunks = append(chunks, &rpc.Chunk{Path: "f", Index: uint32(i), FirstRecord: first, Records: n})
		first += n
	}
	return chunks
}

// Tasks cover the records of a dataset once, in order, and each names the chunks that hold its records and no others.
func TestPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(0, 9), 1, 12).Draw(t, "chunks")
		size, trainers := rapid.Int64Range(0, 20).Draw(t, "records per task"), rapid.IntRange(1, 3).Draw(t, "trainers")
		total := int64(0)
		for _, n := range sizes {
			total += n
		}
		tasks, err := coordinator.Partition("d", chunksOf(sizes...), size, trainers)
		if total == 0 {
			if !errors.Is(err, fault.NotFound) {
				t.Fatal(err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		next := int64(0)
		for i, task := range tasks {
			from, to := task.Records.From, task.Records.To
			if from != next || to <= from || size > 0 && to-from > size || size > 0 && i < len(tasks)-1 && to-from != size {
				t.Fatalf("task %d is [%d, %d) after %d", i, from, to, next)
			}
			next = to
			first, last := task.Chunks[0], task.Chunks[len(task.Chunks)-1]
			if first.FirstRecord > from || first.FirstRecord+first.Records <= from || last.FirstRecord >= to || last.FirstRecord+last.Records < to {
				t.Fatalf("task [%d, %d) of chunks from %v to %v", from, to, first, last)
			}
		}
		if next != total {
			t.Fatalf("tasks end at %d of %d", next, total)
		}
		if size == 0 && total >= int64(16*trainers) && len(tasks) < 16*trainers {
			t.Fatalf("%d tasks for %d trainers", len(tasks), trainers)
		}
	})
}

func TestPartitionRefuses(t *testing.T) {
	gap := chunksOf(3, 4)
	gap[1].FirstRecord = 4
	for name, c := range map[string]struct {
		chunks []*rpc.Chunk
		size   int64
		kind   fault.Kind
	}{
		"no chunks":         {nil, 0, fault.NotFound},
		"a gap":             {gap, 0, fault.InvalidArgument},
		"less than nothing": {chunksOf(5, -2), 0, fault.InvalidArgument},
		"more than counts":  {chunksOf(math.MaxInt64, 1), 1 << 60, fault.InvalidArgument},
		"too many tasks":    {chunksOf(math.MaxInt64), 1, fault.TooLarge},
	} {
		if _, err := coordinator.Partition("d", c.chunks, c.size, 2); fault.KindOf(err) != c.kind {
			t.Errorf("%s: got %v, want %v", name, err, c.kind)
		}
	}
	if tasks, err := coordinator.Partition("d", chunksOf(math.MaxInt64), math.MaxInt64-1, 1); err != nil || len(tasks) != 2 {
		t.Errorf("%d tasks, %v", len(tasks), err)
	}
}
