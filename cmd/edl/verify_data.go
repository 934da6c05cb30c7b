package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
)

// verifyChunks is into how many chunks the records of a shortened run are cut, so that there is work to divide.
const verifyChunks = 16

// firstBatches copies the records of the first batches that run reads to dir, and returns the run that reads those, once.
func firstBatches(ctx context.Context, p *program.Program, run executor.TrainOptions, steps int, dir string) (executor.TrainOptions, error) {
	read, err := executor.ReadOp(p)
	if err != nil {
		return run, err
	}
	pipeline, err := reader.PipelineOf(p.Global(), read)
	if err != nil {
		return run, err
	}
	if steps > math.MaxInt32 {
		return run, fault.E(fault.InvalidArgument, fault.At("--steps"), fault.Got(fmt.Sprint(steps)), fault.Want("fewer"))
	}
	source, err := executor.OpenFiles(ctx, p, run.Data, 1)
	if err != nil {
		return run, err
	}
	defer source.Close()
	name, records := source.Dataset()
	wanted := min(int64(steps)*int64(pipeline.Batch), records.NumRecords())
	w, err := dataset.CreateShards(dir, "train", 1, recordio.Options{ChunkRecords: int(max(1, wanted/verifyChunks))})
	if err != nil {
		return run, err
	}
	defer w.Abort()
	for record, err := range records.Records(ctx, 0, wanted) {
		if err != nil {
			return run, err
		}
		if err := w.Write(record.Bytes); err != nil {
			return run, err
		}
	}
	run.Data, run.Passes = map[string][]string{name: {filepath.Join(dir, "train-*")}}, 1
	return run, w.Close()
}
