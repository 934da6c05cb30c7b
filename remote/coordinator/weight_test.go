package coordinator_test

import (
	"context"

	"github.com/edl-go/edl/remote/cluster"
)

// weighed is a cluster.State that weighs what is committed.
type weighed struct {
	cluster.State
	changes, bytes int // of the largest commit
}

func (w *weighed) Commit(ctx context.Context, changes []cluster.Change) error {
	bytes := 0
	for _, c := range changes {
		bytes += len(c.Key) + len(c.Value)
	}
	w.changes, w.bytes = max(w.changes, len(changes)), max(w.bytes, bytes)
	return w.State.Commit(ctx, changes)
}

// weight is what a job has in etcd: entries, their bytes, and the largest one; and the largest commit of a request.
type weight struct{ entries, bytes, largest, changes, changed int }

func weightOf(entries map[string][]byte, commits weighed) weight {
	w := weight{entries: len(entries), changes: commits.changes, changed: commits.bytes}
	for key, value := range entries {
		w.bytes += len(key) + len(value)
		w.largest = max(w.largest, len(value))
	}
	return w
}
