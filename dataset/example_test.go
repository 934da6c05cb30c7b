package dataset_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/tensor"
)

// writeSquares makes a dataset of two files: x float32[1], and its square.
func writeSquares(dir string, n int) error {
	w, err := dataset.CreateShards(dir, "squares", 2, recordio.Options{Compressor: recordio.Snappy})
	if err != nil {
		return err
	}
	defer w.Abort()
	var record []byte
	for i := range n {
		x, err := tensor.FromSlice([]float32{float32(i)})
		if err != nil {
			return err
		}
		y, err := tensor.FromSlice([]float32{float32(i * i)})
		if err != nil {
			return err
		}
		record = dataset.AppendRecord(record[:0], x, y)
		if err := w.Write(record); err != nil {
			return err
		}
	}
	return w.Close()
}

// One pass over a dataset as one of two trainers sees it.
func Example() {
	dir, err := os.MkdirTemp("", "squares")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := writeSquares(dir, 10); err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	squares, err := dataset.Open(ctx, []string{filepath.Join(dir, "squares-*")})
	if err != nil {
		fmt.Println(err)
		return
	}
	batcher, err := dataset.NewBatcher(dataset.BatchOptions{
		Fields: []dataset.Field{{Name: "x", DType: tensor.Float32, Dims: []int64{1}}, {Name: "y", DType: tensor.Float32, Dims: []int64{1}}},
		Rows:   4,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for batch, err := range batcher.Batches(squares.Records(ctx, 0, squares.NumRecords()), dataset.Part{Index: 0, Of: 2}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(batch.Rows, "of", batch.GlobalRows, "rows:", batch.Tensors[0].Float32s(), batch.Tensors[1].Float32s(), batch.Records)
	}
	// Output:
	// 2 of 4 rows: [0 2] [0 4] [{0 2}]
	// 2 of 4 rows: [8 1] [64 1] [{4 6}]
	// 1 of 2 rows: [7] [49] [{8 9}]
}
