package convert

import (
	"context"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/tensor"
)

// kept is a RecordWriter that decodes what it is given.
type kept struct {
	t       testing.TB
	samples [][]*tensor.Tensor
}

func (k *kept) Write(record []byte) error {
	k.t.Helper()
	tensors, err := dataset.DecodeRecord(record)
	if err != nil || len(tensors) != 2 {
		k.t.Fatalf("a record of %v, error %v", tensors, err)
	}
	k.samples = append(k.samples, tensors)
	return nil
}

// features returns the elements of the first tensor of sample i.
func (k *kept) features(i int) []float32 { return k.samples[i][0].Float32s() }

var background = context.Background()
