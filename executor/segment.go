package executor

import (
	"context"
	"iter"
	"math"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
)

// A Segment is one run over a stream of records: it is shuffled as the program says and divided into batches, which are numbered from 0.
type Segment struct {
	Pass  int          // makes the order of each pass another one
	Part  dataset.Part // what is decoded of each batch
	First int64        // number of the first batch that is wanted
	// Open yields the records of the stream from a position on, and none where that is not before the end of the stream. It is called once, with
	// the position of the first record that is needed.
	Open func(from int64) iter.Seq2[dataset.Record, error]
}

// Segment yields the batches of s from number s.First on: those that a run from the first batch would yield, whatever the parts. Records of
// earlier batches are read only where they share the shuffle buffer of later ones, and not decoded. One iteration may run at a time, of
// Segment or Batches.
func (r *Reader) Segment(ctx context.Context, s Segment) iter.Seq2[*dataset.Batch, error] {
	rows := int64(r.pipeline.Batch)
	if s.First < 0 || s.First > math.MaxInt64/rows {
		return func(yield func(*dataset.Batch, error) bool) {
			yield(nil, fault.E(fault.InvalidArgument, fault.At(r.String()), fault.Gotf("first batch %d", s.First),
				fault.Wantf("0 to %d", math.MaxInt64/rows)))
		}
	}
	records := dataset.ShuffleFrom(s.First*rows, s.Open, r.pipeline.ShuffleBuffer, uint64(r.pipeline.ShuffleSeed), uint64(s.Pass))
	return r.Batches(ctx, records, s.Part)
}
