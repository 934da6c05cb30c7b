package exampletest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
)

// lawRecords is what the laws are checked on: several batches of every example, the last one with fewer rows, and chunks enough for all trainers.
const lawRecords = 210

// firstRecords copies the first records of the training set to files of their own and returns their pattern.
func firstRecords(t *testing.T, p *program.Program, out string) string {
	t.Helper()
	source, err := executor.OpenFiles(t.Context(), p, bind(out, "train"), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	_, records := source.Dataset()
	dir := t.TempDir()
	if err := copyRecords(t.Context(), records, dir); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "train-*")
}

func copyRecords(ctx context.Context, records *dataset.Dataset, dir string) error {
	w, err := dataset.CreateShards(dir, "train", 1, recordio.Options{ChunkRecords: 16})
	if err != nil {
		return err
	}
	defer w.Abort()
	for record, err := range records.Records(ctx, 0, min(lawRecords, records.NumRecords())) {
		if err != nil {
			return err
		}
		if err := w.Write(record.Bytes); err != nil {
			return err
		}
	}
	return w.Close()
}
